//! `tensorfleet launch` runs a TensorFlow program as a cluster: nothing of the program knows of Tensorfleet.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};

use tensorfleet_tests::cluster::tensorfleet_program;
use tensorfleet_tests::python::Interpreter;

#[test]
fn a_tensorflow_trainer_runs_as_it_is() {
    let interpreter = Interpreter::with_tensorflow_2().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/launched_trainer.py");
    let output = Command::new(tensorfleet_program().unwrap())
        .args(["launch", "--ps", "1", "--workers", "1", "--"])
        .arg(interpreter.program())
        .arg("-B")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("worker/0 │ trained to 3.0 in "), "{stdout}\n{stderr}");
    assert!(stderr.contains("launch   │ the chief is done"), "{stderr}");
}
