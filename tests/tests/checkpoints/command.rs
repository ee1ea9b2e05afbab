//! `tensorfleet checkpoint` on checkpoints of TensorFlow, judged by TensorFlow and numpy.

use std::time::Duration;

use tensorfleet_tests::cluster::tensorfleet_program;
use tensorfleet_tests::python::{Interpreter, Program};

/// The program takes ten seconds on an idle machine, most of them to import TensorFlow.
const LIMIT: Duration = Duration::from_secs(400);

fn check_with(tensorflow: &Interpreter) {
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        format!("--directory={}", directory.path().display()),
        format!("--program={}", tensorfleet_program().unwrap().display()),
    ];
    let program = Program::start(tensorflow, "checkpoint_command.py", flags, LIMIT).unwrap();
    let checks = program.finish(|request| Err(format!("asked for {request}"))).unwrap();
    assert_eq!(checks.len(), 7);
    for check in &checks {
        assert!(check.passed, "{}\n{}", check.name, check.detail);
    }
}

#[test]
fn the_command_reads_what_tensorflow_2_saves() {
    check_with(&Interpreter::with_tensorflow_2().unwrap());
}

#[test]
fn the_command_reads_what_tensorflow_1_saves() {
    if let Some(tensorflow) = Interpreter::with_tensorflow_1() {
        check_with(&tensorflow);
    }
}
