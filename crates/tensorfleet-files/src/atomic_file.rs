//! [`AtomicFile`]: a file that appears under its name complete, or not at all.
//!
//! Bytes go to a temporary file beside the final one. Only when all of them are on the disk is it renamed; if
//! anything fails before that, the temporary file is removed and what was there stays.
//!
//! The disk of a large file is told to begin before the last byte is written, so that there is less to wait for at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tensorfleet_core::{Code, Result, Status};

/// Small writes are gathered up to this size; larger ones go straight to the file.
const BUFFER_BYTES: usize = 256 << 10;

/// The disk is told to begin after so many bytes.
const SYNC_BYTES: usize = 64 << 20;

/// A file being written.
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    /// `None` once sealed.
    writer: Option<BufWriter<File>>,
    /// Bytes that the disk has not been told of.
    unsynced: usize,
    /// Waits for the disk. Its error counts as much as that of the last wait: the system tells of each failure once.
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl AtomicFile {
    /// Opens a temporary file in the directory of `path`.
    pub fn create(path: impl Into<PathBuf>) -> Result<AtomicFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = path.into();
        loop {
            let unique = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut name = path.clone().into_os_string();
            // The suffix is TensorFlow's, so that its tools know such a file for what it is.
            name.push(format!(".tempstate{}{unique:08}", std::process::id()));
            let temporary = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    let writer = Some(BufWriter::with_capacity(BUFFER_BYTES, file));
                    return Ok(AtomicFile { path, temporary, writer, unsynced: 0, syncing: None });
                }
                // Left behind by a process that had our number before us.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_status(&temporary, &error)),
            }
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut steps = bytes.chunks(SYNC_BYTES);
        steps.try_for_each(|step| self.write_step(step)).map_err(|error| io_status(&self.path, &error))
    }

    fn write_step(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Err(io::Error::other("the file is sealed")) };
        writer.write_all(bytes)?;
        self.unsynced += bytes.len();
        if self.unsynced < SYNC_BYTES || self.syncing.as_ref().is_some_and(|syncing| !syncing.is_finished()) {
            return Ok(());
        }
        let file = writer.get_ref().try_clone()?;
        self.wait_for_disk()?;
        self.unsynced = 0;
        #[expect(
            clippy::disallowed_methods,
            reason = "the file owns the thread, and joins it before it syncs again or ends"
        )]
        let syncing = std::thread::Builder::new().spawn(move || file.sync_data())?;
        self.syncing = Some(syncing);
        Ok(())
    }

    fn wait_for_disk(&mut self) -> io::Result<()> {
        let Some(syncing) = self.syncing.take() else { return Ok(()) };
        syncing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the disk failed")))
    }

    /// Brings all bytes to the disk; nothing can be written after that.
    pub fn seal(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let flushed = writer.flush().and_then(|()| self.wait_for_disk());
        flushed.and_then(|()| writer.get_ref().sync_all()).map_err(|error| io_status(&self.path, &error))
    }

    /// Seals the file and gives it its name, in place of whatever had it.
    pub fn commit(mut self) -> Result<()> {
        self.seal()?;
        std::fs::rename(&self.temporary, &self.path).map_err(|error| io_status(&self.path, &error))
    }

    /// Like [`AtomicFile::commit`], and brings the name to the disk, too.
    pub fn commit_durably(self) -> Result<()> {
        let path = self.path.clone();
        self.commit()?;
        sync_directory_of(&path)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // Who drops an unfinished file has an error to report already, or wants none.
        let _ = self.wait_for_disk();
        // After a rename there is nothing left to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// Brings renames in the directory of `path` to the disk.
pub(crate) fn sync_directory_of(path: &Path) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        // The root is in no directory.
        None => return Ok(()),
    };
    let sync = File::open(directory).and_then(|directory| directory.sync_all());
    sync.map_err(|error| io_status(directory, &error))
}

/// The status for a failed file operation, with TensorFlow's code for it.
pub fn io_status(path: &Path, error: &io::Error) -> Status {
    use io::ErrorKind::*;
    let code = match error.kind() {
        NotFound => Code::NotFound,
        PermissionDenied | ReadOnlyFilesystem => Code::PermissionDenied,
        AlreadyExists => Code::AlreadyExists,
        IsADirectory | NotADirectory | DirectoryNotEmpty => Code::FailedPrecondition,
        UnexpectedEof => Code::OutOfRange,
        InvalidInput | InvalidFilename => Code::InvalidArgument,
        StorageFull | FileTooLarge | QuotaExceeded | OutOfMemory => Code::ResourceExhausted,
        InvalidData => Code::DataLoss,
        Unsupported => Code::Unimplemented,
        _ => Code::Unknown,
    };
    Status::new(code, format!("{}; {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write(b"half").unwrap();
        drop(file);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);

        let mut file = AtomicFile::create(&path).unwrap();
        file.write(b"whole").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let status = AtomicFile::create(directory.path().join("none/f")).map(|_| ()).unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
    }
}
