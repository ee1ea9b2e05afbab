//! [`Entry`]: a name in an opened directory, for what is done to names rather than to files: making, renaming, removing.
//!
//! None of it follows a link that stands under the name. The directory is the one that was opened, whatever its path may lead to
//! by now.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use tensorfleet_core::Result;

use crate::io_status::io_status;

/// What a new directory may be used for before the process's mask is applied, as everywhere.
pub(crate) const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// A name in a directory, whether there is something under it or not.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `None`: the working directory, and the name is a path.
    directory: Option<Arc<OwnedFd>>,
    name: OsString,
    /// As the user has it.
    path: PathBuf,
}

impl Entry {
    pub(crate) fn new(directory: Option<Arc<OwnedFd>>, name: OsString, path: PathBuf) -> Entry {
        Entry { directory, name, path }
    }

    /// The path it was made for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file that was not there, for writing.
    pub fn create_new(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let created = openat(self.directory(), &self.name, flags, Mode::from_raw_mode(0o666));
        created.map(File::from).map_err(|error| self.status(error))
    }

    /// Makes a directory.
    pub fn create_dir(&self) -> Result<()> {
        mkdirat(self.directory(), &self.name, NEW_DIRECTORY).map_err(|error| self.status(error))
    }

    /// Gives the file another name, in place of whatever has it.
    pub fn rename(&self, to: &Entry) -> Result<()> {
        let renamed = renameat(self.directory(), &self.name, to.directory(), &to.name);
        renamed.map_err(|error| self.status(error))
    }

    /// Removes a file.
    pub fn remove_file(&self) -> Result<()> {
        unlinkat(self.directory(), &self.name, AtFlags::empty()).map_err(|error| self.status(error))
    }

    /// Removes a directory that is empty.
    pub fn remove_dir(&self) -> Result<()> {
        unlinkat(self.directory(), &self.name, AtFlags::REMOVEDIR).map_err(|error| self.status(error))
    }

    /// Brings what was done to names in this directory to the disk.
    pub fn sync_directory(&self) -> Result<()> {
        let directory: &Path = match self.directory {
            Some(_) => Path::new("."),
            None => match Path::new(&self.name).parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                Some(_) => Path::new("."),
                // The root is in no directory.
                None => return Ok(()),
            },
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(self.directory(), directory, flags, Mode::empty());
        opened.and_then(fsync).map_err(|error| self.status(error))
    }

    /// The name with something after it, in the same directory.
    pub(crate) fn with_suffix(&self, suffix: impl AsRef<OsStr>) -> Entry {
        let (mut name, mut path) = (self.name.clone(), self.path.clone().into_os_string());
        name.push(&suffix);
        path.push(&suffix);
        Entry { directory: self.directory.clone(), name, path: path.into() }
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(CWD, |directory| directory.as_fd())
    }

    fn status(&self, error: Errno) -> tensorfleet_core::Status {
        io_status(&self.path, &error.into())
    }
}
