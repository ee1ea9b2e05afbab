//! What people get wrong when they start the programs in `examples/`: one sentence, an exit code, no panic.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use tensorfleet::train::Saver;
use tensorfleet::{Graph, Session};
use tensorfleet_tests::program::{Program, example};
use tensorfleet_tests::trainer::Hosts;

/// The programs that are tasks of a cluster, and their flags for a directory.
const CLUSTER_PROGRAMS: [(&str, &str); 4] = [
    ("linear_regression", "--logdir"),
    ("partial_results", "--logdir"),
    ("trainer", "--checkpoint_dir"),
    ("mnist_replica", "--log_dir"),
];

/// Runs an example that must fail: the only words, besides notices of what it waits for, are one sentence with all `words`.
#[track_caller]
fn assert_refused(name: &str, arguments: &[String], words: &[&str]) {
    let output = Command::new(example(name).unwrap()).args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let story = format!("{name} {}\n{errors}", arguments.join(" "));
    assert_eq!(output.status.code(), Some(1), "{story}");
    let sentences: Vec<&str> = errors.lines().filter(|line| !line.starts_with("tensorfleet: ")).collect();
    let [sentence] = sentences[..] else { panic!("not one sentence: {story}") };
    assert!(sentence.starts_with("Error: ") && sentence.len() < 500, "{story}");
    for word in words {
        assert!(sentence.contains(word), "'{word}' is missing: {story}");
    }
}

fn flags(all: &[&str]) -> Vec<String> {
    all.iter().map(|flag| flag.to_string()).collect()
}

/// A cluster of this machine, and a task of it.
fn task(hosts: &Hosts, job: &str, index: usize, more: &[&str]) -> Vec<String> {
    let task = [format!("--job_name={job}"), format!("--task_index={index}")];
    hosts.flags().into_iter().chain(task).chain(flags(more)).collect()
}

fn parameter_server(name: &str, hosts: &Hosts) -> Program {
    let mut command = Command::new(example(name).unwrap());
    command.args(task(hosts, "ps", 0, &[]));
    Program::spawn(command).unwrap()
}

#[test]
fn the_task_must_be_named_and_exist() {
    const HOSTS: [&str; 2] = ["--ps_hosts=localhost:2222", "--worker_hosts=localhost:2223,localhost:2224"];
    for (name, _) in CLUSTER_PROGRAMS {
        let with = |more: &[&str]| flags(&[&HOSTS[..], more].concat());
        assert_refused(name, &[], &["no cluster is given", "--ps_hosts"]);
        assert_refused(name, &with(&[]), &["--job_name and --task_index are missing"]);
        assert_refused(name, &with(&["--task_index=0"]), &["--job_name is missing"]);
        assert_refused(name, &with(&["--job_name=ps"]), &["--task_index is missing"]);
        let beyond = with(&["--job_name=worker", "--task_index=2"]);
        assert_refused(name, &beyond, &["No task with index 2 in job 'worker'"]);
        let unknown = with(&["--job_name=master", "--task_index=0"]);
        assert_refused(name, &unknown, &["No such job in cluster: 'master'"]);
        for hosts in ["localhost", "localhost:", "localhost:99999", "localhost:2222,,localhost:2223"] {
            let ps_hosts = format!("--ps_hosts={hosts}");
            let malformed = flags(&[&ps_hosts, HOSTS[1], "--job_name=ps", "--task_index=0"]);
            assert_refused(name, &malformed, &["InvalidArgument"]);
        }
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let words = format!("port {port} is in use");
    for (name, _) in CLUSTER_PROGRAMS {
        let ps_hosts = format!("--ps_hosts=localhost:{port}");
        let arguments = flags(&[&ps_hosts, "--worker_hosts=localhost:1", "--job_name=ps", "--task_index=0"]);
        assert_refused(name, &arguments, &[&words]);
    }
    let base_port = format!("--base_port={port}");
    assert_refused("five_servers", &[base_port], &[&words]);
    assert_refused("five_servers", &flags(&["--base_port=65533"]), &["ports end at 65535"]);
}

#[test]
fn a_missing_parameter_server_or_chief_is_waited_for_but_not_for_ever() {
    let hosts = Hosts::new(1, 2).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (name, dir_flag) in CLUSTER_PROGRAMS {
        let dir = format!("{dir_flag}={}", directory.path().join(name).display());
        for worker in [0, 1] {
            let started = Instant::now();
            let arguments = task(&hosts, "worker", worker, &[&dir, "--wait_secs=1"]);
            assert_refused(name, &arguments, &["/job:ps/task:0"]);
            assert!(started.elapsed() < Duration::from_secs(20), "{name} waited {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let inside = format!("{}/logs", file.path().display());
    for (name, dir_flag) in CLUSTER_PROGRAMS {
        let hosts = Hosts::new(1, 1).unwrap();
        let dir = format!("{dir_flag}={inside}");
        let _ps = parameter_server(name, &hosts);
        assert_refused(name, &task(&hosts, "worker", 0, &[&dir]), &[&inside]);
    }
}

#[test]
fn a_checkpoint_of_another_model_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let g = Graph::new();
    let other = g.variable("other", [1.0f32, 2.0]);
    let session = Session::new(&g);
    session.run(other.initializer()).unwrap();
    Saver::new(&g).unwrap().save(&session, &format!("{dir}/model.ckpt"), Some(7)).unwrap();
    for (name, dir_flag) in CLUSTER_PROGRAMS {
        let hosts = Hosts::new(1, 1).unwrap();
        let _ps = parameter_server(name, &hosts);
        let arguments = task(&hosts, "worker", 0, &[&format!("{dir_flag}={dir}")]);
        assert_refused(name, &arguments, &["model.ckpt-7", "global_step"]);
    }
}

#[test]
fn data_that_is_no_data_is_named() {
    let hosts = Hosts::new(1, 1).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let data_dir = format!("--data_dir={}", directory.path().display());
    let arguments = task(&hosts, "worker", 0, &[&data_dir]);
    assert_refused("mnist_replica", &arguments, &[directory.path().to_str().unwrap()]);
    for name in [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ] {
        std::fs::write(directory.path().join(name), "no digits").unwrap();
    }
    assert_refused("mnist_replica", &arguments, &["train-images-idx3-ubyte", "idx"]);
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let hosts = Hosts::new(1, 2).unwrap();
    let gpus = task(&hosts, "worker", 0, &["--num_gpus=1"]);
    assert_refused("mnist_replica", &gpus, &["number of gpus is less than number of workers"]);
    let existing = task(&hosts, "ps", 0, &["--existing_servers"]);
    assert_refused("mnist_replica", &existing, &["--existing_servers", "--job_name=ps"]);
    assert_refused("mnist_replica", &flags(&["--download_only"]), &["--download_only needs --data_dir"]);
}
