//! `cargo xtask package`: the tests of the Python package, where nothing of TensorFlow is installed.
//!
//! The wheel is built once, with the profile of the other tests, so that what they compiled serves here too. Its extension module is
//! put beside the sources, where an environment with numpy alone runs the tests; TensorFlow takes part as a program of another
//! environment. Then the wheel is installed into fresh environments of the oldest Python that is served, the newest, and one between.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::environment::{PIP, base_python, checked, environments, fresh, pip_install};
use super::{api, build, tensorflow_1, tensorflow_2};
use crate::skipping;

/// The Pythons whose fresh environments the wheel is installed into.
const SMOKE_VERSIONS: [(u32, u32); 3] = [(3, 9), (3, 11), (3, 13)];

/// Runs everything, also after something has failed; whether all of it passed.
pub(crate) fn report(root: &Path) -> Result<bool, String> {
    let wheel = build::dev_wheel(root)?;
    let python = build::develop(root, &wheel)?;
    let with_tensorflow = tensorflow_1()?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(root).env("PYTHONPATH", root.join("python"));
        command.env("TENSORFLEET_COMMAND", root.join("target/debug/tensorfleet"));
        command.env("TENSORFLEET_TF2_PYTHON", tensorflow_2()?);
        if let Some(python) = &with_tensorflow {
            command.env("TENSORFLEET_TF1_PYTHON", python);
        }
        let status = command.status().map_err(|error| format!("{}: {error}", python.display()))?;
        Ok(status.success())
    };
    let mut passed = true;
    let mut part = |name: &str, outcome: &dyn Fn() -> Result<bool, String>| {
        let begin = Instant::now();
        let is_passed = outcome().unwrap_or_else(|reason| {
            println!("{reason}");
            false
        });
        let verdict = if is_passed { "ok" } else { "FAILED" };
        println!("   {name:<28}{verdict:<8}{:>7.1} s", begin.elapsed().as_secs_f64());
        passed &= is_passed;
    };
    part("signatures", &|| run(&["python/tests/check_signatures.py"]));
    part("table of names", &|| api::is_current(root, &api::table(root, &python)?));
    part("names and stubs", &|| run(&["-m", "tensorfleet.framework.stubs", "--check", "python/tensorfleet"]));
    part("unit tests", &|| run(&["-m", "unittest", "discover", "--start-directory", "python/tests"]));
    match with_tensorflow {
        Some(_) => part("compared with TensorFlow", &|| run(&["python/tests/differential.py", "--all"])),
        None => println!("   compared with TensorFlow    left out: there is no TensorFlow 1.15"),
    }
    for version in SMOKE_VERSIONS {
        let (major, minor) = version;
        part(&format!("wheel with Python {major}.{minor}"), &|| smoke(root, &wheel, version));
    }
    Ok(passed)
}

/// Installs the wheel as a user does, into an environment that did not exist before, and uses it a little.
fn smoke(root: &Path, wheel: &Path, version: (u32, u32)) -> Result<bool, String> {
    let (major, minor) = version;
    let base = match base_python(&[version]) {
        Ok(base) => base,
        Err(missing) if skipping::allowed() => {
            println!("skipped: {missing}; `pyenv install {major}.{minor}` makes one");
            return Ok(true);
        }
        Err(missing) => {
            let remedy = format!("`pyenv install {major}.{minor}` makes one");
            return Err(skipping::refusal(&missing, &remedy));
        }
    };
    let python = fresh(&base, &environments()?.join(format!("smoke-{major}.{minor}")))?;
    checked(pip_install(&python).arg(wheel), PIP)?;
    let mut command = Command::new(&python);
    // Isolated: neither the work tree nor the user's own packages are on the path.
    command.arg("-I").arg(root.join("python/tests/smoke.py")).current_dir(std::env::temp_dir());
    let status = command.status().map_err(|error| format!("{}: {error}", python.display()))?;
    Ok(status.success())
}
