//! Everything here that has to do with Python: the environments that tests and measurements need, the package's wheel, its tests,
//! and the table of the names it offers.

mod api;
mod build;
mod environment;
mod package;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::{Outcome, skipping};
use environment::{Failure, TF1, TF2, provide};

pub(crate) use api::run as api;
pub(crate) use build::bench_environment;
pub(crate) use package::report as package;
pub(crate) use wheel::{dist, run as wheel};

const INSTALL_3_7: &str = "`pyenv install 3.7` makes one";

/// `cargo xtask python`: the environments with TensorFlow.
pub(crate) fn run() -> Outcome {
    Ok(if report()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes what is missing and says what there is; whether everything necessary is there.
pub(crate) fn report() -> Result<bool, String> {
    let python = tensorflow_2()?;
    println!("TensorFlow 2.x:  {}", python.display());
    match tensorflow_1()? {
        Some(python) => println!("TensorFlow 1.15: {}", python.display()),
        None => println!("TensorFlow 1.15: left out, there is no Python 3.7; {INSTALL_3_7}"),
    }
    Ok(true)
}

/// The interpreter with TensorFlow 2.x, installed if necessary.
pub(crate) fn tensorflow_2() -> Result<PathBuf, String> {
    provide(&TF2).map_err(Failure::reason)
}

/// The interpreter with TensorFlow 1.15, installed if necessary; none where there is no Python for it and tests may be left out.
pub(crate) fn tensorflow_1() -> Result<Option<PathBuf>, String> {
    match provide(&TF1) {
        Ok(python) => Ok(Some(python)),
        Err(Failure::NoPython(_)) if skipping::allowed() => Ok(None),
        Err(Failure::NoPython(reason)) => Err(skipping::refusal(&reason, INSTALL_3_7)),
        Err(Failure::Installation(reason)) => Err(reason),
    }
}
