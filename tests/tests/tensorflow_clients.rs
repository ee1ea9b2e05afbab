//! Unmodified TensorFlow programs, 2.x and 1.15, on servers of ours.
//!
//! The programs are in `tests/python`; each makes many checks, and a test here fails with the story of every check that
//! did. With `TENSORFLEET_TEST_SERVERS=tensorflow` the same programs run on TensorFlow's servers.

use std::time::Duration;

use tensorfleet_tests::checked_program::{assert_all_pass_together, assert_checks_pass};
use tensorfleet_tests::cluster::{Cluster, Server};
use tensorfleet_tests::python::Interpreter;

/// Ten times what a program takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(400);

/// Two parameter servers and three workers, as in the tutorials.
fn cluster(client: &Interpreter) -> Cluster {
    let server = Server::under_test(client).unwrap_or_else(|reason| panic!("{reason}"));
    let servers = vec![server; 5];
    Cluster::start(&servers[..2], &servers[2..]).unwrap_or_else(|reason| panic!("{reason}"))
}

fn tensorflow_2() -> Interpreter {
    Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"))
}

/// Runs a test where there is TensorFlow 1.15.
fn with_tensorflow_1(test: impl FnOnce(Interpreter)) {
    if let Some(interpreter) = Interpreter::with_tensorflow_1() {
        test(interpreter);
    }
}

fn passes(interpreter: &Interpreter, program: &str) {
    assert_checks_pass(&mut cluster(interpreter), interpreter, program, &[], LIMIT);
}

/// Twenty sessions in four processes.
fn crowd(interpreter: &Interpreter) {
    let groups: Vec<Vec<String>> = (0..4)
        .map(|group| {
            vec![format!("--group={group}"), "--groups=4".to_string(), "--clients_per_group=5".to_string()]
        })
        .collect();
    assert_all_pass_together(&mut cluster(interpreter), interpreter, "many_clients.py", &groups, LIMIT);
}

#[test]
fn tensorflow_2_trains() {
    passes(&tensorflow_2(), "training.py");
}

#[test]
fn tensorflow_2_brings_what_users_bring_after_the_tutorials() {
    passes(&tensorflow_2(), "second_tier.py");
}

#[test]
fn tensorflow_2_uses_every_part_of_a_session() {
    passes(&tensorflow_2(), "session_api.py");
}

#[test]
fn tensorflow_2_sends_tensors_of_every_kind_and_size() {
    passes(&tensorflow_2(), "tensors.py");
}

#[test]
fn tensorflow_2_uses_functions_and_datasets() {
    passes(&tensorflow_2(), "functions_and_datasets.py");
}

#[test]
fn tensorflow_2_differentiates_loops_of_version_2() {
    passes(&tensorflow_2(), "control_flow_v2.py");
}

#[test]
fn tensorflow_2_brings_pictures_old_checkpoints_and_caches() {
    passes(&tensorflow_2(), "pictures_and_files.py");
}

#[test]
fn tensorflow_2_comes_with_twenty_clients_at_once() {
    crowd(&tensorflow_2());
}

#[test]
fn tensorflow_2_survives_restarts_of_servers() {
    passes(&tensorflow_2(), "restarts.py");
}

#[test]
fn tensorflow_1_trains() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "training.py"));
}

#[test]
fn tensorflow_1_brings_what_users_bring_after_the_tutorials() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "second_tier.py"));
}

#[test]
fn tensorflow_1_uses_every_part_of_a_session() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "session_api.py"));
}

#[test]
fn tensorflow_1_sends_tensors_of_every_kind_and_size() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "tensors.py"));
}

#[test]
fn tensorflow_1_uses_functions_and_datasets() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "functions_and_datasets.py"));
}

#[test]
fn tensorflow_1_differentiates_loops_of_version_2() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "control_flow_v2.py"));
}

#[test]
fn tensorflow_1_brings_pictures_old_checkpoints_and_caches() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "pictures_and_files.py"));
}

#[test]
fn tensorflow_1_comes_with_twenty_clients_at_once() {
    with_tensorflow_1(|interpreter| crowd(&interpreter));
}

#[test]
fn tensorflow_1_survives_restarts_of_servers() {
    with_tensorflow_1(|interpreter| passes(&interpreter, "restarts.py"));
}
