//! The Python package, built for tests and for measurements, and the interpreters that have it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::{
    Failure, PACKAGE, PIP, base_python, checked, environments, fresh, pip_install, provide,
};
use super::wheel;

/// Builds the package for tests; the interpreter that runs them.
pub(super) fn for_tests(root: &Path) -> Result<PathBuf, String> {
    develop(root, &dev_wheel(root)?)
}

/// The wheel, and the command, which some tests start.
pub(super) fn dev_wheel(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tensorfleet-cli", "--bin", "tensorfleet"]);
    let status = cargo.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("the build of the command failed: {status}"));
    }
    wheel::build(root, "dev", &root.join("target/wheels/dev"))
}

/// Puts the wheel's extension module beside the sources; the interpreter that runs tests.
pub(super) fn develop(root: &Path, wheel: &Path) -> Result<PathBuf, String> {
    let python = provide(&PACKAGE).map_err(Failure::reason)?;
    // By a rename, since another program may have loaded the old one.
    let script = "import os, sys, zipfile\n\
                  archive, name = zipfile.ZipFile(sys.argv[1]), 'tensorfleet/_native.abi3.so'\n\
                  path = os.path.join(sys.argv[2], name)\n\
                  with open(path + '.new', 'wb') as file:\n    \
                  file.write(archive.read(name))\n\
                  os.replace(path + '.new', path)";
    let mut extract = Command::new(&python);
    extract.args(["-c", script]).arg(wheel).arg(root.join("python"));
    checked(&mut extract, "taking the extension module out of the wheel")?;
    Ok(python)
}

/// An environment with the wheel as it is shipped, for measurements; its interpreter.
pub(crate) fn bench_environment(root: &Path) -> Result<PathBuf, String> {
    let wheel = wheel::build(root, "dist", &root.join("target/wheels/dist"))?;
    let base = base_python(PACKAGE.versions)?;
    let python = fresh(&base, &environments()?.join("bench"))?;
    checked(pip_install(&python).arg(wheel), PIP)?;
    Ok(python)
}
