//! `tensorfleet run`: a TensorFlow 1.x script in Python, unmodified, with this runtime.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use tensorfleet::Status;

use crate::{Failure, python};

pub(crate) const HELP: &str = "\
The script's `import tensorflow` gives the package tensorfleet; nothing of TensorFlow is needed, and nothing of it is changed if \
it is there. The Python is that of the active environment ($VIRTUAL_ENV, $CONDA_PREFIX), or the first python3 in the path; it \
must have the package (`pip install .` in a clone). `python -m tensorfleet` does the same.

Examples:
  A program as it is, with its own flags:
    tensorfleet run trainer.py --job_name=worker --task_index=0
  What it uses and tensorfleet lacks, before it runs:
    tensorfleet run --check trainer.py
  A module, or a line:
    tensorfleet run -- -m my.trainer --steps=100
    tensorfleet run -- -c 'import tensorflow as tf; print(tf.__version__)'
  As a cluster on this machine:
    tensorfleet launch --ps 1 --workers 2 -- trainer.py";

/// Arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// List what the script uses and tensorfleet lacks, and do not run it; 1 is the exit code if there is anything.
    #[arg(long)]
    pub(crate) check: bool,

    /// The Python interpreter.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,

    /// The script and its arguments.
    #[arg(value_name = "SCRIPT", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) script: Vec<OsString>,
}

/// Becomes the interpreter, so that signals, the terminal and the exit code are the script's own.
pub(crate) fn run(arguments: RunArguments) -> Result<(), Failure> {
    let interpreter = python::interpreter(arguments.python.as_deref())?;
    let check = arguments.check.then(|| OsString::from("--check"));
    let words = check.into_iter().chain(arguments.script);
    let error = Command::new(&interpreter).args(python::arguments(words)).exec();
    Err(Failure::Error(Status::not_found(format!("{} cannot be started: {error}", interpreter.display()))))
}
