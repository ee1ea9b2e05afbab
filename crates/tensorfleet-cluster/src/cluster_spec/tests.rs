//! Tests of cluster specifications in all their forms.

use proptest::prelude::*;

use super::*;
use crate::TfConfig;

fn two_jobs() -> ClusterSpec {
    ClusterSpec::new([("worker", vec!["w0:1", "w1:1"]), ("ps", vec!["p0:1"])]).unwrap()
}

fn with_gaps() -> ClusterSpec {
    ClusterSpec::sparse([("ps", vec![(3, "c:4"), (1, "d:5")]), ("worker", vec![(0, "a:1")])]).unwrap()
}

#[track_caller]
fn assert_refused<T: fmt::Debug>(result: Result<T>, words: &str) {
    let status = result.unwrap_err();
    assert!(status.text().contains(words), "{status}");
}

#[test]
fn jobs_and_tasks_come_in_order() {
    let spec = two_jobs();
    assert_eq!(spec.jobs().collect::<Vec<_>>(), ["ps", "worker"]);
    let tasks: Vec<_> = spec.tasks().collect();
    assert_eq!(tasks, [("ps", 0, "p0:1"), ("worker", 0, "w0:1"), ("worker", 1, "w1:1")]);
    assert_eq!((spec.len(), spec.num_tasks("worker").unwrap()), (3, 2));
    assert_eq!(spec.address("worker", 1).unwrap(), "w1:1");
    assert_eq!(TaskId::new("worker", 1).full_name(), "/job:worker/replica:0/task:1");
}

#[test]
fn gaps_are_kept_as_tensorflow_keeps_them() {
    let spec = with_gaps();
    assert_eq!(spec.task_indices("ps").unwrap(), [1, 3]);
    assert_eq!(spec.job_tasks("ps").unwrap(), [None, Some("d:5"), None, Some("c:4")]);
    assert_eq!(spec.num_tasks("ps").unwrap(), 2);
    assert_eq!(spec.as_json(), r#"{"ps":{"1":"d:5","3":"c:4"},"worker":["a:1"]}"#);
}

#[test]
fn unknown_jobs_and_indices_are_named_with_what_there_is() {
    let spec = two_jobs();
    assert_refused(spec.num_tasks("chief"), "No such job in cluster: 'chief'; it has 'ps', 'worker'");
    assert_refused(spec.address("worker", 2), "No task with index 2 in job 'worker': its indices are 0, 1");
    assert_refused(with_gaps().address("ps", 0), "its indices are 1, 3");
    let many = ClusterSpec::new([("w", (1..100).map(|port| format!("h:{port}")))]).unwrap();
    assert_refused(many.address("w", 99), "0, 1, 2, 3, 4, 5, 6, 7, … (99 in all)");
}

#[test]
fn hosts_are_lists_with_commas() {
    assert_eq!(ClusterSpec::from_hosts("p0:1", "w0:1, w1:1").unwrap(), two_jobs());
    let only_workers = ClusterSpec::from_hosts("", "w0:1").unwrap();
    assert_eq!(only_workers.jobs().collect::<Vec<_>>(), ["worker"]);
    assert_refused(ClusterSpec::from_hosts("a:1,", "b:1"), "/job:ps/task:1: malformed address ''");
    assert_refused(ClusterSpec::from_hosts("", " "), "is empty");
}

#[test]
fn an_offending_entry_is_named() {
    let new = |jobs: &[(&str, &[&str])]| {
        ClusterSpec::new(jobs.iter().map(|(job, addresses)| (*job, addresses.iter().copied())))
    };
    assert_refused(new(&[]), "is empty");
    assert_refused(new(&[("worker", &[])]), "is empty");
    assert_refused(new(&[("1a", &["x:1"])]), "malformed job name '1a'");
    assert_refused(new(&[("a-b", &["x:1"])]), "malformed job name 'a-b'");
    assert_refused(new(&[("", &["x:1"])]), "malformed job name ''");
    assert_refused(new(&[("w", &["x:1"]), ("w", &["y:1"])]), "has job 'w' twice");
    assert_refused(new(&[("w", &["ok:1", "noport"])]), "/job:w/task:1: malformed address 'noport'");
    assert_refused(
        new(&[("ps", &["a:1"]), ("w", &["b:1", "A:1"])]),
        "/job:ps/task:0 and /job:w/task:1 have the same address 'A:1'",
    );
    assert_refused(ClusterSpec::sparse([("w", [(0, "a:1"), (0, "b:1")])]), "has /job:w/task:0 twice");
    assert_refused(ClusterSpec::sparse([("w", [(1_000_000, "a:1")])]), "task index 1000000 of job 'w'");
}

/// As TensorFlow 1.15.5 and 2.21 take them.
#[test]
fn blanks_and_jobs_without_tasks_are_left_out_of_every_form() {
    let expected = ClusterSpec::from_hosts("", "w0:1,w1:1").unwrap();
    let json = r#"{"ps": [], "chief": {}, "worker": ["w0: 1", " w1:1 "]}"#;
    assert_eq!(ClusterSpec::from_json(json).unwrap(), expected);
    assert_eq!(ClusterSpec::from_toml("ps = []\nworker = ['w0: 1', 'w1 : 1']").unwrap(), expected);
    assert_eq!(ClusterSpec::from_hosts(" ", "w0: 1, w1:1").unwrap(), expected);
    assert_eq!(ClusterSpec::new([("ps", vec![]), ("worker", vec!["w0: 1", "w1:1"])]).unwrap(), expected);
    let config = format!(r#"{{"cluster": {json}, "task": {{"type": "worker", "index": 1}}}}"#);
    assert_eq!(TfConfig::parse(&config).unwrap().cluster, expected);
    let job = |name: &str, tasks: &[(i32, &str)]| JobDef {
        name: name.into(),
        tasks: tasks.iter().map(|&(index, address)| (index, address.to_string())).collect(),
    };
    let def = ClusterDef { job: vec![job("ps", &[]), job("worker", &[(0, "w0: 1"), (1, "w1:1")])] };
    assert_eq!(ClusterSpec::from_cluster_def(&def).unwrap(), expected);
    assert_refused(ClusterSpec::from_hosts("a: 1", "A:1"), "have the same address");
}

#[test]
fn a_free_port_is_for_a_cluster_of_one() {
    let local = ClusterSpec::new([("local", ["localhost:0"])]).unwrap();
    let bound = local.with_address("local", 0, "localhost:40001").unwrap();
    assert_eq!(bound.address("local", 0).unwrap(), "localhost:40001");
    assert_refused(bound.with_address("local", 1, "localhost:40002"), "No task with index 1");
    assert_refused(ClusterSpec::from_hosts("a:0", "b:1"), "/job:ps/task:0 has port 0");
}

#[test]
fn a_cluster_def_with_a_negative_index_is_refused() {
    let job = JobDef { name: "w".into(), tasks: [(-1, "a:1".to_string())].into() };
    assert_refused(ClusterSpec::from_cluster_def(&ClusterDef { job: vec![job] }), "task index -1 of job 'w'");
    assert_refused(ClusterSpec::from_cluster_def(&ClusterDef::default()), "is empty");
}

#[test]
fn json_and_toml_say_the_same() {
    let json = r#"{"ps": {"3": "c:4", "1": "d:5"}, "worker": ["a:1"]}"#;
    assert_eq!(json.parse::<ClusterSpec>().unwrap(), with_gaps());
    assert_eq!(ClusterSpec::from_json(&format!(r#"{{"cluster": {json}}}"#)).unwrap(), with_gaps());
    let toml = "worker = ['a:1']\n[ps]\n3 = 'c:4'\n1 = 'd:5'";
    assert_eq!(ClusterSpec::from_toml(toml).unwrap(), with_gaps());
    let nested = "[cluster]\nworker = ['a:1']\nps = { 3 = 'c:4', 1 = 'd:5' }";
    assert_eq!(ClusterSpec::from_toml(nested).unwrap(), with_gaps());
    let job_called_cluster = ClusterSpec::from_json(r#"{"cluster": {"0": "a:1"}}"#).unwrap();
    assert_eq!(job_called_cluster.address("cluster", 0).unwrap(), "a:1");
}

#[test]
fn text_that_is_no_specification_is_refused_with_the_entry() {
    for (text, words) in [
        ("", "not valid JSON"),
        ("[]", "is a list, expected an object"),
        ("{}", "is empty"),
        (r#"{"w": "a:1"}"#, "job 'w' in the cluster specification is the text 'a:1'"),
        (r#"{"w": 3}"#, "job 'w' in the cluster specification is the number 3"),
        (r#"{"w": [3]}"#, "/job:w/task:0 is the number 3, expected an address"),
        (r#"{"w": {"x": "a:1"}}"#, "has the task index 'x'"),
        (r#"{"w": {"1.5": "a:1"}}"#, "has the task index '1.5'"),
        (r#"{"w": {"-1": "a:1"}}"#, "task index -1 of job 'w'"),
        (r#"{"w": {"0": null}}"#, "/job:w/task:0 is null"),
        (r#"{"w": ["a:1"], "w": ["b:1"]}"#, "has job 'w' twice"),
        (r#"{"w": {"0": "a:1", "00": "b:1"}}"#, "has /job:w/task:0 twice"),
        (r#"{"w": {"0": "a:1", "0": "a:1"}}"#, "has /job:w/task:0 twice"),
    ] {
        assert_refused(ClusterSpec::from_json(text), words);
    }
    assert_refused(ClusterSpec::from_json(&"[".repeat(100_000)), "not valid JSON");
    assert_refused(ClusterSpec::from_toml("w = ["), "not valid TOML");
    assert_refused(ClusterSpec::from_toml("w = 2020-01-01"), "is a date");
}

#[test]
fn files_are_read_by_their_extension() {
    let dir = tempfile::tempdir().unwrap();
    let toml = dir.path().join("cluster.toml");
    std::fs::write(&toml, "ps = ['p0:1']\nworker = ['w0:1', 'w1:1']").unwrap();
    assert_eq!(ClusterSpec::from_file(&toml).unwrap(), two_jobs());
    let json = dir.path().join("cluster.json");
    std::fs::write(&json, two_jobs().as_json()).unwrap();
    assert_eq!(ClusterSpec::from_file(&json).unwrap(), two_jobs());
    std::fs::write(&json, "{}").unwrap();
    assert_refused(ClusterSpec::from_file(&json), "cluster.json");
    assert_refused(
        ClusterSpec::from_file(dir.path().join("absent")),
        "cannot read the cluster specification",
    );
}

#[test]
fn tf_config_names_cluster_and_task() {
    let config = |task: &str| {
        let cluster = r#"{"chief": ["c:1"], "worker": ["w0:1"], "ps": ["p0:1"]}"#;
        TfConfig::parse(&format!(r#"{{"cluster": {cluster}, "environment": "cloud"{task}}}"#))
    };
    assert_eq!(config("").unwrap().task, None);
    assert_eq!(config(r#", "task": {}"#).unwrap().task, None);
    let chief = config(r#", "task": {"type": "chief", "index": 0}"#).unwrap();
    assert_eq!(chief.task, Some(TaskId::new("chief", 0)));
    assert_eq!(chief.cluster.jobs().collect::<Vec<_>>(), ["chief", "ps", "worker"]);
    // Written by launchers that keep everything as text.
    assert_eq!(config(r#", "task": {"type": "ps", "index": "0"}"#).unwrap().task, Some(TaskId::new("ps", 0)));
    // An evaluator stands outside the cluster.
    let evaluator = config(r#", "task": {"type": "evaluator", "index": 0}"#).unwrap();
    assert_eq!(evaluator.task, Some(TaskId::new("evaluator", 0)));

    for (task, words) in [
        (r#", "task": {"type": "worker", "index": 1}"#, "No task with index 1 in job 'worker'"),
        (r#", "task": {"type": "master", "index": 0}"#, "No such job in cluster: 'master'"),
        (r#", "task": {"type": "worker"}"#, "'task' has no 'index'"),
        (r#", "task": {"index": 0}"#, "no 'type'"),
        (
            r#", "task": {"type": "worker", "index": -1}"#,
            "the index the number -1, expected an integer from 0",
        ),
        (r#", "task": {"type": "worker", "index": 0.5}"#, "the index a fraction"),
        (r#", "task": 3"#, "'task' is the number 3"),
    ] {
        assert_refused(config(task), words);
    }
    assert_refused(TfConfig::parse("{}"), "no 'cluster'");
    assert_refused(TfConfig::parse("nonsense"), "not valid JSON");
}

#[test]
fn the_first_difference_is_named() {
    let here = two_jobs();
    let there = |ps: &str, worker: &str| ClusterSpec::from_hosts(ps, worker).unwrap();
    assert_eq!(here.differences(&here.clone()), None);
    let moved = there("p0:1", "w0:1,b:2");
    assert_eq!(here.differences(&moved).unwrap(), "/job:worker/task:1 is 'w1:1' here and 'b:2' there");
    let smaller = there("p0:1", "w0:1");
    assert_eq!(here.differences(&smaller).unwrap(), "/job:worker/task:1 is 'w1:1' here and missing there");
    assert_eq!(smaller.differences(&here).unwrap(), "/job:worker/task:1 is missing here and 'w1:1' there");
    assert_ne!(here.fingerprint(), moved.fingerprint());
}

#[test]
fn the_fingerprint_is_the_same_everywhere() {
    // 64-bit FNV-1a of `{"ps":["a:1"]}`; processes of other versions compute the same.
    let spec = ClusterSpec::from_hosts("a:1", "").unwrap();
    assert_eq!(spec.fingerprint(), 0x0ef6_88cf_9b8b_d37e);
    let def = spec.as_cluster_def();
    assert_eq!(ClusterSpec::from_cluster_def(&def).unwrap().fingerprint(), spec.fingerprint());
}

fn any_spec() -> impl Strategy<Value = ClusterSpec> {
    let tasks = prop::collection::btree_map(0u32..40, 1u16..=65535, 1..6);
    prop::collection::btree_map("[a-zA-Z][a-zA-Z0-9_]{0,8}", tasks, 1..5).prop_map(|jobs| {
        let named = jobs.into_iter().map(|(job, tasks)| {
            let host = job.clone();
            // The host is unique to job and index, apart from letters' case, which hosts ignore.
            let code: u64 = job.bytes().fold(7, |code, byte| code.wrapping_mul(257) + u64::from(byte));
            let tasks: Vec<(u32, String)> = tasks
                .into_iter()
                .map(|(index, port)| (index, format!("{host}-{code}-{index}:{port}")))
                .collect();
            (job, tasks)
        });
        ClusterSpec::sparse(named.collect::<Vec<_>>()).unwrap()
    })
}

proptest! {
    #[test]
    fn every_form_gives_the_specification_back(spec in any_spec()) {
        prop_assert_eq!(&ClusterSpec::from_json(&spec.as_json()).unwrap(), &spec);
        prop_assert_eq!(&ClusterSpec::from_cluster_def(&spec.as_cluster_def()).unwrap(), &spec);
        let value = serde_json::to_value(&spec).unwrap();
        prop_assert_eq!(&serde_json::from_value::<ClusterSpec>(value).unwrap(), &spec);
        prop_assert_eq!(&ClusterSpec::sparse(spec.as_map().clone()).unwrap(), &spec);
        prop_assert_eq!(spec.differences(&spec.clone()), None);
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in ".{0,200}") {
        let _ = ClusterSpec::from_json(&text);
        let _ = ClusterSpec::from_toml(&text);
        let _ = TfConfig::parse(&text);
        let _ = ClusterSpec::from_hosts(&text, &text);
        let _ = address::from_target(&text);
    }
}
