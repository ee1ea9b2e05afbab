//! The runner on a server that answers from a script: `NAME:0` says what a fetch does.

use super::*;
use crate::case::CaseFiles;
use std::sync::atomic::{AtomicUsize, Ordering};
use tensorfleet_core::Code;
use tensorfleet_proto::tensorflow::{ConfigProto, NamedTensorProto};

struct Scripted;

impl Backend for Scripted {
    fn refusal(&self, case: &Case) -> Option<String> {
        case.cluster.is_some().then(|| "needs a cluster".to_string())
    }

    fn start(&self, _: &Case) -> Result<Box<dyn Server>> {
        Ok(Box::new(ScriptedServer { resets: Arc::default(), gate: Arc::new(Gate::default()) }))
    }
}

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: parking_lot::Condvar,
}

struct ScriptedServer {
    resets: Arc<AtomicUsize>,
    gate: Arc<Gate>,
}

impl Server for ScriptedServer {
    fn session(&self, _: &str, _: &GraphDef, _: &ConfigProto) -> Result<Arc<dyn Session>> {
        let (resets, gate) = (self.resets.clone(), self.gate.clone());
        Ok(Arc::new(ScriptedSession { resets, gate, draws: AtomicUsize::new(0) }))
    }

    fn reset(&self, _: &[String]) -> Result<()> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct ScriptedSession {
    resets: Arc<AtomicUsize>,
    gate: Arc<Gate>,
    draws: AtomicUsize,
}

impl Session for ScriptedSession {
    fn extend(&self, _: GraphDef, version: Option<i64>) -> Result<()> {
        if version == Some(0) { Err(Status::aborted("old version")) } else { Ok(()) }
    }

    fn run(&self, request: &RunRequest) -> Result<Vec<Tensor>> {
        let answer = |name: &String| match &**name {
            "one:0" => Ok(Tensor::scalar(1.0f32)),
            "resets:0" => Ok(Tensor::scalar(self.resets.load(Ordering::SeqCst) as f32)),
            "draw:0" => Ok(Tensor::scalar(self.draws.fetch_add(1, Ordering::SeqCst) as f32)),
            "echo:0" => Ok(request.feeds[0].1.clone()),
            "wait:0" => {
                let mut open = self.gate.open.lock();
                while !*open {
                    self.gate.changed.wait(&mut open);
                }
                Ok(Tensor::scalar(1.0f32))
            }
            "open:0" => {
                *self.gate.open.lock() = true;
                self.gate.changed.notify_all();
                Ok(Tensor::scalar(1.0f32))
            }
            "panic:0" => panic!("an invariant broke"),
            other => Err(Status::not_found(format!("no {other}"))),
        };
        request.fetches.iter().map(answer).collect()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A case with the scalar 1 as expected value 0, and `${CASE}/f` as feed 0 and expected value 1.
fn run_steps(steps: &str) -> Outcome {
    let head = r#""name": "f/c", "family": "f", "tier": 1, "doc": null, "variables": "ref", "mode": "session",
        "cluster": null, "config": null, "ops": [], "tolerance": {"DT_FLOAT": {"rtol": 0.1, "atol": 0.0}}"#;
    let record = |value: Tensor| {
        NamedTensorProto { name: "x:0".into(), tensor: Some(value.to_proto()) }
            .encode_length_delimited_to_vec()
    };
    let path = || Tensor::from("${CASE}/f");
    let mut files = CaseFiles::new();
    files.insert("case.json".into(), format!("{{{head}, \"steps\": [{steps}]}}").into());
    files.insert("graph.pb".into(), Bytes::new());
    files.insert("feeds.pb".into(), record(path()).into());
    files.insert("expected.pb".into(), [record(Tensor::scalar(1.0f32)), record(path())].concat().into());
    files.insert("extra.pb".into(), Bytes::new());
    let backend: Arc<dyn Backend> = Arc::new(Scripted);
    run_case(&backend, &Arc::new(Case::parse(files).unwrap()), Duration::from_secs(2))
}

fn passes(steps: &str) {
    assert_eq!(run_steps(steps), Outcome::Passed);
}

fn fails(steps: &str, at: usize, fragment: &str) {
    match run_steps(steps) {
        Outcome::Failed(failure) => {
            assert_eq!(failure.step, Some(at), "{failure}");
            assert!(failure.wrong.contains(fragment), "{failure} should contain {fragment}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_and_errors_are_judged_and_the_first_wrong_step_is_named() {
    passes(r#"{"fetches": ["one:0"], "expected": [0]}"#);
    passes(r#"{"fetches": ["nope:0"], "error": {"code": 5, "contains": "nope"}}"#);
    fails(
        r#"{"fetches": ["one:0"], "expected": [0]}, {"fetches": ["resets:0"], "expected": [0]}"#,
        1,
        "expected 1.0",
    );
    fails(r#"{"fetches": ["nope:0"], "expected": [0]}"#, 0, "NOT_FOUND");
    fails(r#"{"fetches": ["one:0"], "error": {"code": 5}}"#, 0, "expected NOT_FOUND");
    fails(r#"{"fetches": ["nope:0"], "error": {"code": 3}}"#, 0, "expected INVALID_ARGUMENT");
    assert_eq!(Code::NotFound as i32, 5);
}

#[test]
fn a_background_step_must_block_until_something_lets_it_go() {
    let waiting = r#"{"fetches": ["wait:0"], "expected": [0], "background": "w"}"#;
    let open = r#"{"fetches": ["open:0"], "expected": [0], "session": "other"}"#;
    passes(&format!(r#"{waiting}, {open}, {{"join": "w"}}"#));
    fails(r#"{"fetches": ["one:0"], "expected": [0], "background": "w"}"#, 0, "should be waiting");
    passes(
        r#"{"fetches": ["one:0"], "expected": [0], "background": "w", "must_block": false}, {"join": "w"}"#,
    );
    fails(
        r#"{"fetches": ["resets:0"], "expected": [0], "background": "w", "must_block": false}, {"join": "w"}"#,
        1,
        "step 0",
    );
    fails(&format!(r#"{waiting}, {{"join": "w"}}"#), 1, "hangs");
}

#[test]
fn a_hanging_or_panicking_step_fails_its_case_alone() {
    fails(r#"{"fetches": ["wait:0"], "expected": [0]}"#, 0, "hangs");
    fails(r#"{"fetches": ["panic:0"], "expected": [0]}"#, 0, "an invariant broke");
    fails(r#"{"fetches": ["panic:0"], "error": {"code": 13}}"#, 0, "panicked");
}

#[test]
fn sessions_are_closed_reset_and_extended() {
    passes(
        r#"{"fetches": ["one:0"], "expected": [0]}, {"reset": []}, {"fetches": ["resets:0"], "expected": [0]}"#,
    );
    passes(r#"{"fetches": [], "expected": [], "session": "a"}, {"close_session": "a"}, {"sleep_ms": 1}"#);
    fails(r#"{"close_session": "a"}"#, 0, "no session 'a'");
    passes(
        r#"{"extend": "extra.pb"}, {"extend": "extra.pb", "version": 0, "error": {"code": 10, "contains": "version"}}"#,
    );
    fails(r#"{"extend": "gone.pb"}"#, 0, "gone.pb");
}

#[test]
fn random_values_must_differ_from_those_of_an_earlier_step() {
    let draw = r#"{"fetches": ["draw:0"], "expected": [null]}"#;
    let again = |name: &str| format!(r#"{{"fetches": ["{name}:0"], "expected": [null], "differs_from": 0}}"#);
    passes(&format!("{draw}, {}", again("draw")));
    fails(&format!("{draw}, {}", again("resets")), 1, "those of step 0 again");
}

#[test]
fn directories_are_put_into_fed_and_expected_strings() {
    passes(r#"{"feeds": [0], "fetches": ["echo:0"], "expected": [1]}"#);
}
