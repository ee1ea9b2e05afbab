//! `cargo xtask wheel`: the Python package as a wheel. `cargo xtask dist`: everything that is given to others, with checksums.
//!
//! One wheel serves every CPython from 3.9 on, since the extension keeps to the stable ABI. maturin builds it, from an environment of
//! its own.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::environment::{BUILD, Failure, provide};
use crate::Outcome;
use crate::arguments::Arguments;

/// What an optimised wheel may weigh: less than a second on an ordinary connection, and a hundredth of TensorFlow.
const MAX_WHEEL_BYTES: u64 = 20_000_000;

/// The command.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    let profile = arguments.option("--profile")?.unwrap_or_else(|| "release".to_string());
    arguments.finish()?;
    let wheel = build(root, &profile, &root.join("target/wheels"))?;
    println!("{}, {}", wheel.display(), weight(&wheel)?);
    check_weight(&wheel, &profile)?;
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask dist`: the wheel and the command, each optimised as a whole, and their checksums.
pub(crate) fn dist(arguments: Arguments, root: &Path) -> Outcome {
    arguments.finish()?;
    let directory = root.join("target/dist-files");
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let wheel = build(root, "dist", &directory)?;
    check_weight(&wheel, "dist")?;
    let program = command(root, &directory)?;
    let sums = checksums(&directory, &[&wheel, &program])?;
    print!("{sums}");
    for file in [&wheel, &program] {
        println!("{}, {}", file.display(), weight(file)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the wheel into a directory, where it replaces others; its path.
pub(super) fn build(root: &Path, profile: &str, directory: &Path) -> Result<PathBuf, String> {
    let python = provide(&BUILD).map_err(Failure::reason)?;
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for old in wheels(directory)? {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let mut maturin = Command::new(&python);
    maturin.args(["-m", "maturin", "build", "--profile", profile, "--strip", "--quiet", "--out"]);
    maturin.arg(directory).arg("--interpreter").arg(&python).current_dir(root);
    match maturin.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("maturin: {status}")),
        Err(error) => return Err(format!("{}: {error}", python.display())),
    }
    wheels(directory)?.pop().ok_or_else(|| format!("maturin left no wheel in {}", directory.display()))
}

fn wheels(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = directory.read_dir().map_err(|error| format!("{}: {error}", directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).collect())
}

/// The command, built as it is shipped, under a name that says what it runs on.
fn command(root: &Path, directory: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--profile", "dist", "--package", "tensorfleet-cli", "--bin", "tensorfleet"]);
    // The program alone, so that what it is linked from is what measurements use.
    cargo.args(["--", "-C", "strip=symbols"]);
    match cargo.current_dir(root).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the build failed: {status}")),
        Err(error) => return Err(format!("cargo: {error}")),
    }
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let name = format!("tensorfleet-{version}-{system}-{}", std::env::consts::ARCH);
    let (built, copy) = (root.join("target/dist/tensorfleet"), directory.join(name));
    std::fs::copy(&built, &copy).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(copy)
}

/// Writes `SHA256SUMS`, as `sha256sum --check` reads it.
fn checksums(directory: &Path, files: &[&PathBuf]) -> Result<String, String> {
    let python = provide(&BUILD).map_err(Failure::reason)?;
    let script = "import hashlib, os, sys\n\
                  for path in sys.argv[1:]:\n    \
                  print(hashlib.sha256(open(path, 'rb').read()).hexdigest(), '', os.path.basename(path))";
    let output = Command::new(&python).args(["-c", script]).args(files).output();
    let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
    if !output.status.success() {
        return Err(format!("checksums: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let path = directory.join("SHA256SUMS");
    std::fs::write(&path, &output.stdout).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn bytes(path: &Path) -> Result<u64, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(metadata.len())
}

fn weight(path: &Path) -> Result<String, String> {
    Ok(format!("{:.1} MB", bytes(path)? as f64 / 1e6))
}

/// Development builds are for tests, and may weigh what they like.
fn check_weight(wheel: &Path, profile: &str) -> Result<(), String> {
    if profile == "dev" || bytes(wheel)? <= MAX_WHEEL_BYTES {
        return Ok(());
    }
    Err(format!("the wheel weighs {}, and may weigh {} MB", weight(wheel)?, MAX_WHEEL_BYTES / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_that_is_too_heavy_is_refused_unless_it_is_for_tests() {
        let path = std::env::temp_dir().join(format!("tensorfleet-wheel-{}.whl", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_WHEEL_BYTES + 1).unwrap();
        let (shipped, tested) = (check_weight(&path, "release"), check_weight(&path, "dev"));
        std::fs::remove_file(&path).unwrap();
        assert!(shipped.unwrap_err().contains("20.0 MB, and may weigh 20 MB"));
        assert_eq!(tested, Ok(()));
    }
}
