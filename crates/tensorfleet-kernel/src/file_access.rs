//! [`FileAccess`]: which files the nodes of a graph may touch.
//!
//! A graph comes from a client, and runs with the rights of the server's process. TensorFlow leaves it at that, and so
//! does a server that was not told otherwise. One that was told directories lets graphs read and write below them and
//! nowhere else. Every op that opens, lists, makes or removes a file asks here first; there is no other gate.
//!
//! Paths are resolved before they are compared: relative ones against the working directory, `..` and symbolic links by
//! the file system itself. What does not exist yet is judged by its nearest ancestor that does. Somebody who may create
//! links inside an allowed directory, outside of graphs, can change what a path means between the check and the use; no
//! op makes links.

use std::path::{Component, Path, PathBuf};

use tensorfleet_core::{Result, Status, bail};
use tensorfleet_files::io_status;

/// How many allowed directories an error names.
const MAX_NAMED_ROOTS: usize = 5;

/// The files that graphs on a device may touch.
#[derive(Clone, Debug, Default)]
pub struct FileAccess {
    /// Resolved directories; `None`: everything.
    roots: Option<Vec<PathBuf>>,
}

impl FileAccess {
    /// Whatever the process may touch.
    pub const EVERYWHERE: FileAccess = FileAccess { roots: None };

    /// No file at all: for nodes that are computed while a graph is built or planned.
    pub fn nowhere() -> FileAccess {
        FileAccess { roots: Some(Vec::new()) }
    }

    /// Only what lies below these directories, which must exist.
    pub fn below(directories: &[PathBuf]) -> Result<FileAccess> {
        let resolve = |directory: &PathBuf| {
            let root = directory.canonicalize().map_err(|error| io_status(directory, &error))?;
            match root.is_dir() {
                true => Ok(root),
                false => Err(Status::invalid_argument(format!(
                    "files of graphs can be confined to a directory only, and {} is none",
                    directory.display()
                ))),
            }
        };
        Ok(FileAccess { roots: Some(directories.iter().map(resolve).collect::<Result<_>>()?) })
    }

    /// Whether a graph may touch `path`, be it there or not.
    pub fn check(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let Some(roots) = &self.roots else { return Ok(()) };
        let place = resolved(path)?;
        if roots.iter().any(|root| place.starts_with(root)) {
            return Ok(());
        }
        let mut named: Vec<String> =
            roots.iter().take(MAX_NAMED_ROOTS).map(|root| root.display().to_string()).collect();
        if roots.len() > MAX_NAMED_ROOTS {
            named.push(format!("{} more", roots.len() - MAX_NAMED_ROOTS));
        }
        let allowed = if named.is_empty() { "nowhere".to_string() } else { named.join(", ") };
        bail!(
            PermissionDenied,
            "Graphs on this server may not touch {} (which is {}): their files must lie below {allowed}. Move the file there, \
             or start the server with --allow-files for its directory as well",
            path.display(),
            place.display()
        )
    }
}

impl FileAccess {
    /// Whether a graph may touch a checkpoint: the files `PREFIX.index`, `PREFIX.data-…`, and what else begins so.
    pub fn check_prefix(&self, prefix: &str) -> Result<()> {
        self.check(prefix)?;
        let (Some(_), Some(name)) = (&self.roots, Path::new(prefix).file_name()) else { return Ok(()) };
        let start = [name.as_encoded_bytes(), b"."].concat();
        let directory = Path::new(prefix).parent().filter(|parent| !parent.as_os_str().is_empty());
        let entries = directory.unwrap_or(Path::new(".")).read_dir().into_iter().flatten().flatten();
        let mut files = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(&start));
        files.try_for_each(|entry| self.check(entry.path()))
    }
}

/// The place a path leads to: its nearest existing ancestor, resolved, and the rest of its names.
fn resolved(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| io_status(path, &error))?;
    let mut existing = absolute.as_path();
    let mut missing = Vec::new();
    loop {
        // A link that leads nowhere exists, and would be followed by whoever writes.
        if existing.symlink_metadata().is_ok() {
            let mut place = existing.canonicalize().map_err(|error| io_status(existing, &error))?;
            place.extend(missing.iter().rev());
            return Ok(place);
        }
        match (existing.components().next_back(), existing.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                missing.push(name);
                existing = parent;
            }
            // `..` after a name that is not there: where it leads depends on what that name becomes.
            _ => bail!(PermissionDenied, "{} cannot be resolved", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Code;

    use super::*;

    fn code(access: &FileAccess, path: impl AsRef<Path>) -> Option<Code> {
        access.check(path).err().map(|status| status.code())
    }

    #[test]
    fn without_directories_everything_is_allowed() {
        assert_eq!(code(&FileAccess::EVERYWHERE, "/etc/passwd"), None);
        assert_eq!(code(&FileAccess::default(), "no/such/../file"), None);
        assert_eq!(code(&FileAccess::nowhere(), "/etc/passwd"), Some(Code::PermissionDenied));
    }

    #[test]
    fn paths_below_a_root_are_allowed_whether_they_exist_or_not() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("there"), "x").unwrap();
        let access = FileAccess::below(&[root.path().to_path_buf()]).unwrap();
        for path in ["there", "new", "new/deeper/file", "."] {
            assert_eq!(code(&access, root.path().join(path)), None, "{path}");
        }
    }

    #[test]
    fn dots_links_and_neighbours_do_not_lead_out() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("inside")).unwrap();
        std::fs::create_dir(directory.path().join("root2")).unwrap();
        std::os::unix::fs::symlink(directory.path(), root.join("up")).unwrap();
        std::os::unix::fs::symlink(root.join("inside"), root.join("in")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", root.join("dangling")).unwrap();
        let access = FileAccess::below(std::slice::from_ref(&root)).unwrap();
        assert_eq!(code(&access, root.join("in/new")), None);
        assert_eq!(code(&access, root.join("inside/../inside/new")), None);
        for outside in ["..", "../root2/file", "up/file", "inside/../../x", "new/../../x"] {
            assert_eq!(code(&access, root.join(outside)), Some(Code::PermissionDenied), "{outside}");
        }
        assert!(access.check(root.join("dangling")).is_err());
        assert!(access.check("relative").is_err());
    }

    #[test]
    fn an_error_names_the_path_the_roots_and_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let access = FileAccess::below(&[root.path().to_path_buf()]).unwrap();
        let text = access.check("/etc/hosts").unwrap_err().to_string();
        for part in ["/etc/hosts", &*root.path().canonicalize().unwrap().to_string_lossy(), "--allow-files"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_root_must_be_a_directory_that_exists() {
        assert!(FileAccess::below(&["/no/such/directory".into()]).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(FileAccess::below(&[file.path().to_path_buf()]).is_err());
    }
}
