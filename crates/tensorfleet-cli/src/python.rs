//! Which Python runs a script, and how: as `python -m tensorfleet` does, which gives a script that imports TensorFlow this package
//! instead.
//!
//! Nothing is asked of the interpreter beforehand, since it takes longer to start than everything here: what it is told first is
//! to find the package, and what to say if there is none.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tensorfleet::{Result, Status};

/// `python -m tensorfleet`, with advice if the package is not there.
const START: &str = "\
import sys
try:
    from tensorfleet.standin.run import main
except ModuleNotFoundError as error:
    if (error.name or '').partition('.')[0] not in ('tensorfleet', 'numpy'):
        raise
    sys.exit('error: the package %s is not installed in %s (Python %d.%d): install it with `%s -m pip install tensorfleet` (from a clone: `pip install .`), or choose \
another Python with --python or $VIRTUAL_ENV' % (error.name, sys.executable, *sys.version_info[:2], sys.executable))
sys.exit(main())
";

/// The interpreter: the one that is asked for, that of the active environment, or the first of the path.
pub(crate) fn interpreter(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_path_buf());
    }
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let folder = std::env::var_os(environment).filter(|folder| !folder.is_empty());
        let python = folder.map(|folder| Path::new(&folder).join("bin/python"));
        if let Some(python) = python.filter(|python| python.is_file()) {
            return Ok(python);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|python| python.is_file());
    in_path("python3").or_else(|| in_path("python")).ok_or_else(|| {
        Status::not_found("there is no python3 in the path; say which Python to use with --python")
    })
}

/// The arguments that make an interpreter run a script (or `-m module`, `-c code`) with its own arguments.
pub(crate) fn arguments(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    ["-c", START].map(OsString::from).into_iter().chain(words).collect()
}

/// Whether a program is a script that only Python can run.
pub(crate) fn is_script(program: &OsStr) -> bool {
    Path::new(program).extension() == Some(OsStr::new("py")) && Path::new(program).is_file()
}
