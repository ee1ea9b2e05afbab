//! Clusters in which one task is a TensorFlow server and the other one of ours, with sessions on either.
//!
//! So a TensorFlow master drives our worker, our master drives a TensorFlow worker, and tensors cross both ways.

use std::time::Duration;

use tensorfleet_tests::checked_program::assert_checks_pass;
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::python::Interpreter;
use tensorfleet_tests::stuck::eventually;

/// Ten times what the program takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

fn tensorflow_2() -> Interpreter {
    Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"))
}

fn ours(client: &Interpreter) -> Server {
    Server::under_test(client).unwrap_or_else(|reason| panic!("{reason}"))
}

fn passes(ps: Server, worker: Server, client: &Interpreter, arguments: &[&str]) {
    let mut cluster = Cluster::start(&[ps], &[worker]).unwrap_or_else(|reason| panic!("{reason}"));
    assert_checks_pass(&mut cluster, client, "mixed.py", arguments, LIMIT);
}

#[test]
fn tensorflow_2_ps_with_our_worker() {
    let tensorflow = tensorflow_2();
    passes(Server::TensorFlow(tensorflow.clone()), ours(&tensorflow), &tensorflow, &[]);
}

#[test]
fn our_ps_with_tensorflow_2_worker() {
    let tensorflow = tensorflow_2();
    passes(ours(&tensorflow), Server::TensorFlow(tensorflow.clone()), &tensorflow, &[]);
}

/// Loops are left out: frames have other numbers in 1.x than in 2.x, on the wire and therefore between servers.
#[test]
fn tensorflow_1_ps_with_our_worker() {
    if let Some(tensorflow) = Interpreter::with_tensorflow_1() {
        passes(
            Server::TensorFlow(tensorflow.clone()),
            ours(&tensorflow),
            &tensorflow,
            &["--skip=while_loop"],
        );
    }
}

/// An iterator initialised in one run was "not initialized" in the next, because the graphs that a TensorFlow master
/// registers without a worker session shared no kernels.
#[test]
fn a_sessions_kernels_are_its_own_under_tensorflow_2() {
    let tensorflow = tensorflow_2();
    let mut cluster = Cluster::start(&[ours(&tensorflow)], &[Server::TensorFlow(tensorflow.clone())])
        .unwrap_or_else(|e| panic!("{e}"));
    assert_checks_pass(&mut cluster, &tensorflow, "session_state.py", &[], LIMIT);
    assert_nothing_is_left(&cluster, Job::Ps);
}

/// Loops are left out, as above.
#[test]
fn a_sessions_kernels_are_its_own_under_tensorflow_1() {
    let Some(tensorflow) = Interpreter::with_tensorflow_1() else { return };
    let mut cluster = Cluster::start(&[ours(&tensorflow)], &[Server::TensorFlow(tensorflow.clone())])
        .unwrap_or_else(|e| panic!("{e}"));
    assert_checks_pass(&mut cluster, &tensorflow, "session_state.py", &["--skip=a_stack_in_a_loop"], LIMIT);
    assert_nothing_is_left(&cluster, Job::Ps);
}

/// All sessions of the program are closed, so their masters have deregistered their graphs.
fn assert_nothing_is_left(cluster: &Cluster, job: Job) {
    if std::env::var("TENSORFLEET_TEST_SERVERS").is_ok_and(|servers| servers == "tensorflow") {
        return;
    }
    eventually("the end of all worker sessions", Duration::from_secs(40), || {
        let sessions = cluster.status(job, 0)?.worker_sessions;
        if sessions.is_empty() { Ok(()) } else { Err(format!("{sessions:?}")) }
    });
}
