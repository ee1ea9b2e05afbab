//! [`FileAccess`]: which files the nodes of a graph may touch, and the only way to touch them.
//!
//! A graph comes from a client, and runs with the rights of the server's process. TensorFlow leaves it at that, and so
//! does a server that was not told otherwise. One that was told directories lets graphs read and write below them and
//! nowhere else. Every op opens, lists, makes, renames and removes files through this type; there is no other gate.
//!
//! The gate gives no permission for a path: what a path means may change before it is used. It gives the opened file, or
//! a name in an opened directory ([`Entry`]). First the file system resolves the path: relative ones against the working
//! directory, `..` and links to wherever they lead; what does not exist yet is judged by its nearest ancestor that does. That is
//! only a guess at what is meant. Then the resolved names are opened from the descriptor of an allowed directory, and no
//! link is followed on this way (`beneath.rs`). If somebody has put one there in between, the guess is made again.
//!
//! So somebody who can make links inside an allowed directory, which no op does, cannot lead a graph out of it. Hard links
//! are files of the directory they stand in.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use tensorfleet_core::{Result, Status, bail, excerpt, memory};

use crate::beneath;
use crate::entry::{Entry, NEW_DIRECTORY};
use crate::io_status::io_status;

/// How many allowed directories an error names.
const MAX_NAMED_ROOTS: usize = 5;

/// How often a path is resolved anew because it has changed before it could be opened. Who changes it faster than that
/// does it on purpose.
const MAX_GUESSES: usize = 8;

/// The files that graphs on a device may touch.
#[derive(Clone, Debug, Default)]
pub struct FileAccess {
    /// `None`: everything.
    roots: Option<Arc<[Root]>>,
}

/// A directory below which everything is allowed.
#[derive(Debug)]
struct Root {
    /// Resolved when the server started.
    path: PathBuf,
    /// The directory itself; another one if it has been removed and made anew.
    directory: RwLock<Arc<OwnedFd>>,
}

/// What may be done.
impl FileAccess {
    /// Whatever the process may touch.
    pub const EVERYWHERE: FileAccess = FileAccess { roots: None };

    /// No file at all: for nodes that are computed while a graph is built or planned.
    pub fn nowhere() -> FileAccess {
        FileAccess { roots: Some(Arc::new([])) }
    }

    /// Only what lies below these directories, which must exist.
    pub fn below(directories: &[PathBuf]) -> Result<FileAccess> {
        Ok(FileAccess {
            roots: Some(directories.iter().map(|path| Root::open(path)).collect::<Result<_>>()?),
        })
    }

    /// An error if a graph may not touch `path`, be it there or not. This is for an early and clear message, and for things
    /// that are not opened at once; what is opened is judged when it is opened.
    pub fn check(&self, path: impl AsRef<Path>) -> Result<()> {
        match &self.roots {
            None => Ok(()),
            Some(roots) => locate(roots, path.as_ref()).map(drop),
        }
    }

    /// As [`FileAccess::check`] for a checkpoint: the files `PREFIX.index`, `PREFIX.data-…`, and what else begins so.
    pub fn check_prefix(&self, prefix: &str) -> Result<()> {
        self.check(prefix)?;
        let (Some(_), Some(name)) = (&self.roots, Path::new(prefix).file_name()) else { return Ok(()) };
        let start = [name.as_encoded_bytes(), b"."].concat();
        let directory = parent_of(Path::new(prefix));
        let names = self.names_in(directory).unwrap_or_default();
        let mut files = names.iter().filter(|name| name.as_encoded_bytes().starts_with(&start));
        files.try_for_each(|name| self.check(directory.join(name)))
    }
}

/// Files as a whole.
impl FileAccess {
    /// Opens a file to read it.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path.as_ref(), OFlags::RDONLY | OFlags::NOCTTY)
    }

    /// Opens a file to append to it; makes it if it is missing.
    pub fn append(&self, path: impl AsRef<Path>) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOCTTY;
        self.open_with(path.as_ref(), flags)
    }

    /// All bytes of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let mut file = self.open(path)?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = memory::vec_with_room(usize::try_from(len).unwrap_or(usize::MAX))?;
        memory::read_to_end(&mut file, &mut bytes)?.map_err(|error| io_status(path, &error))?;
        Ok(bytes)
    }

    /// Whether there is an ordinary file. One that may not be touched is none.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.kind_of(path.as_ref()) == Some(FileType::RegularFile)
    }

    /// Whether there is anything. What may not be touched is not there.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.kind_of(path.as_ref()).is_some()
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> Result<File> {
        let mode = if flags.contains(OFlags::CREATE) { NEW_FILE } else { Mode::empty() };
        self.opened(path, flags, mode).map(File::from)
    }

    fn kind_of(&self, path: &Path) -> Option<FileType> {
        let Some(roots) = &self.roots else {
            let stat = statat(CWD, path, AtFlags::empty()).ok()?;
            return Some(FileType::from_raw_mode(stat.st_mode));
        };
        let (root, names) = locate(roots, path).ok()?;
        let entry = match (names.parent(), names.file_name()) {
            (Some(parent), Some(name)) => {
                let directory = root.directory().ok()?;
                let parent =
                    beneath::open(directory.as_fd(), parent, beneath::PASSAGE, Mode::empty()).ok()?;
                statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?
            }
            // The allowed directory itself.
            _ => fstat(root.directory().ok()?).ok()?,
        };
        Some(FileType::from_raw_mode(entry.st_mode)).filter(|&kind| kind != FileType::Symlink)
    }
}

/// What a new file may be used for before the process's mask is applied, as everywhere.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// Names in directories.
impl FileAccess {
    /// The place in its directory that `path` names. The directory must exist; a link at the place itself is not followed
    /// by what [`Entry`] can do.
    pub fn entry(&self, path: impl Into<PathBuf>) -> Result<Entry> {
        let path = path.into();
        if self.roots.is_none() {
            return Ok(Entry::new(None, path.clone().into(), path));
        }
        let Some(Component::Normal(name)) = path.components().next_back() else {
            bail!(InvalidArgument, "{} names no file in a directory", path.display())
        };
        let name = name.to_os_string();
        let directory = self.opened(parent_of(&path), beneath::PASSAGE, Mode::empty())?;
        Ok(Entry::new(Some(Arc::new(directory)), name, path))
    }

    /// The names in a directory, in no order.
    pub fn names_in(&self, directory: impl AsRef<Path>) -> Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStrExt;

        let path = directory.as_ref();
        let failed = |error: Errno| io_status(path, &error.into());
        let opened = self.opened(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(OsStr::from_bytes(name).to_os_string()),
            }
        }
        Ok(names)
    }

    /// Makes a directory and those above it that are missing.
    pub fn create_dir_all(&self, directory: impl AsRef<Path>) -> Result<()> {
        let path = directory.as_ref();
        let Some(roots) = &self.roots else {
            return std::fs::create_dir_all(path).map_err(|error| io_status(path, &error));
        };
        let (root, names) = locate(roots, path)?;
        let failed = |error: Errno| io_status(path, &error.into());
        let mut here = root.directory().map_err(|error| io_status(path, &error))?;
        for name in names.components() {
            match rustix::fs::mkdirat(&here, name.as_os_str(), NEW_DIRECTORY) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            let next = beneath::open(here.as_fd(), name.as_ref(), beneath::PASSAGE, Mode::empty());
            here = Arc::new(next.map_err(failed)?);
        }
        Ok(())
    }

    /// Opens what `path` leads to now.
    fn opened(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let failed = |error: Errno| io_status(path, &error.into());
        let Some(roots) = &self.roots else {
            let opened = rustix::io::retry_on_intr(|| openat(CWD, path, flags | OFlags::CLOEXEC, mode));
            return opened.map_err(failed);
        };
        for _ in 0..MAX_GUESSES {
            let (root, names) = locate(roots, path)?;
            let directory = root.directory().map_err(|error| io_status(path, &error))?;
            match beneath::open(directory.as_fd(), &names, flags, mode) {
                Err(Errno::LOOP | Errno::XDEV | Errno::AGAIN) => {}
                outcome => return outcome.map_err(failed),
            }
        }
        bail!(
            PermissionDenied,
            "{} is not opened: links on the way to it change all the time. Find out who changes them below the \
             directories of --allow-files",
            path.display()
        )
    }
}

impl Root {
    fn open(path: &Path) -> Result<Root> {
        let resolved = path.canonicalize().map_err(|error| io_status(path, &error))?;
        if !resolved.is_dir() {
            return Err(Status::invalid_argument(format!(
                "files of graphs can be confined to a directory only, and {} is none",
                path.display()
            )));
        }
        let directory = open_resolved(&resolved).map_err(|error| io_status(path, &error))?;
        Ok(Root { path: resolved, directory: RwLock::new(Arc::new(directory)) })
    }

    /// The directory, opened.
    fn directory(&self) -> io::Result<Arc<OwnedFd>> {
        let kept = self.directory.read().unwrap_or_else(PoisonError::into_inner).clone();
        if fstat(&kept)?.st_nlink > 0 {
            return Ok(kept);
        }
        // It was removed. Somebody who starts afresh makes one of the same name.
        let anew = Arc::new(open_resolved(&self.path)?);
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = anew.clone();
        Ok(anew)
    }
}

fn open_resolved(path: &Path) -> io::Result<OwnedFd> {
    let top = openat(CWD, "/", beneath::PASSAGE, Mode::empty())?;
    let names = path.strip_prefix("/").unwrap_or(path);
    Ok(beneath::open(top.as_fd(), names, beneath::PASSAGE, Mode::empty())?)
}

/// The directory that the last name of `path` stands in.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Below which root a path leads, and by which names from there.
fn locate<'a>(roots: &'a [Root], path: &Path) -> Result<(&'a Root, PathBuf)> {
    let place = resolved(path)?;
    for root in roots {
        if let Ok(names) = place.strip_prefix(&root.path) {
            return Ok((root, names.to_path_buf()));
        }
    }
    let mut named: Vec<String> =
        roots.iter().take(MAX_NAMED_ROOTS).map(|root| root.path.display().to_string()).collect();
    if roots.len() > MAX_NAMED_ROOTS {
        named.push(format!("{} more", roots.len() - MAX_NAMED_ROOTS));
    }
    let allowed = if named.is_empty() { "nowhere".to_string() } else { named.join(", ") };
    bail!(
        PermissionDenied,
        "Graphs on this server may not touch {} (which is {}): their files must lie below {allowed}. Move the file there, \
         or start the server with --allow-files for its directory as well",
        excerpt(path.as_os_str().as_encoded_bytes()),
        excerpt(place.as_os_str().as_encoded_bytes())
    )
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
#[path = "file_access_tests.rs"]
mod tests;
