//! [`AtomicFile`]: a file that appears under its name complete, or not at all.
//!
//! Bytes go to a temporary file beside the final one. Only when all of them are on the disk is it renamed; if
//! anything fails before that, the temporary file is removed and what was there stays.
//!
//! The disk of a large file is told to begin before the last byte is written, so that there is less to wait for at the end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use tensorfleet_core::clock::since_epoch;
use tensorfleet_core::{Code, Result};

use crate::entry::Entry;
use crate::file_access::FileAccess;
use crate::io_status::io_status;

/// Small writes are gathered up to this size; larger ones go straight to the file.
const BUFFER_BYTES: usize = 256 << 10;

/// What stands between the name of a file and the number of its temporary one. It is TensorFlow's, so that its tools know such
/// a file for what it is.
const TEMPORARY: &str = ".tempstate";

/// The disk is told to begin after so many bytes.
const SYNC_BYTES: usize = 64 << 20;

/// A file being written.
pub struct AtomicFile {
    /// Its name, once it is complete.
    place: Entry,
    temporary: Entry,
    /// `None` once sealed.
    writer: Option<BufWriter<File>>,
    /// Bytes that the disk has not been told of.
    unsynced: usize,
    /// Waits for the disk. Its error counts as much as that of the last wait: the system tells of each failure once.
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl AtomicFile {
    /// Opens a temporary file in the directory of `path`, which must exist.
    pub fn create(access: &FileAccess, path: impl Into<PathBuf>) -> Result<AtomicFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = path.into();
        // A link under this name is replaced, not followed; one that leads out is refused all the same, to say so.
        access.check(&path)?;
        let place = access.entry(path)?;
        loop {
            let unique = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = place.with_suffix(format!("{TEMPORARY}{}{unique:08}", std::process::id()));
            match temporary.create_new() {
                Ok(file) => {
                    let writer = Some(BufWriter::with_capacity(BUFFER_BYTES, file));
                    return Ok(AtomicFile { place, temporary, writer, unsynced: 0, syncing: None });
                }
                // Left behind by a process that had our number before us.
                Err(status) if status.code() == Code::AlreadyExists => {}
                Err(status) => return Err(status),
            }
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut steps = bytes.chunks(SYNC_BYTES);
        steps.try_for_each(|step| self.write_step(step)).map_err(|error| io_status(self.place.path(), &error))
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
        flushed
            .and_then(|()| writer.get_ref().sync_all())
            .map_err(|error| io_status(self.place.path(), &error))
    }

    /// Seals the file and gives it its name, in place of whatever had it.
    pub fn commit(mut self) -> Result<()> {
        self.seal()?;
        self.temporary.rename(&self.place)
    }

    /// Like [`AtomicFile::commit`], and brings the name to the disk, too.
    pub fn commit_durably(self) -> Result<()> {
        let place = self.place.clone();
        self.commit()?;
        place.sync_directory()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // Who drops an unfinished file has an error to report already, or wants none.
        let _ = self.wait_for_disk();
        // After a rename there is nothing left to remove.
        let _ = self.temporary.remove_file();
    }
}

/// Removes what processes that were killed while they wrote `path` have left beside it: temporary files of that name that nobody has
/// written to for `age`. For files that are written at once, and by one process at a time.
pub fn remove_leftovers(access: &FileAccess, path: &Path, age: Duration) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let start = [name.as_encoded_bytes(), TEMPORARY.as_bytes()].concat();
    for name in access.names_in(directory).unwrap_or_default() {
        let number = name.as_encoded_bytes().strip_prefix(&start[..]);
        if !number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit)) {
            continue;
        }
        let leftover = directory.join(name);
        let written = access.open(&leftover).ok().and_then(|file| file.metadata().ok()?.modified().ok());
        let written = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
        if written.is_some_and(|written| since_epoch().saturating_sub(written) >= age) {
            // It is in nobody's way.
            let _ = access.entry(leftover).and_then(|entry| entry.remove_file());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, &path).unwrap();
        file.write(b"half").unwrap();
        drop(file);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);

        let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, &path).unwrap();
        file.write(b"whole").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let status = AtomicFile::create(&FileAccess::EVERYWHERE, directory.path().join("none/f"))
            .map(|_| ())
            .unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
    }

    #[test]
    fn what_killed_writers_left_is_removed_when_it_is_old() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let hour_ago = std::time::SystemTime::UNIX_EPOCH + since_epoch() - Duration::from_secs(3600);
        for name in ["f", "f.tempstate100000000", "f.tempstate1x", "f.tempstate", "g.tempstate100000000"] {
            File::create(place(name)).unwrap().set_modified(hour_ago).unwrap();
        }
        File::create(place("f.tempstate200000000")).unwrap();
        remove_leftovers(&FileAccess::EVERYWHERE, &place("f"), Duration::from_secs(60));
        let mut left: Vec<_> =
            directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["f", "f.tempstate", "f.tempstate1x", "f.tempstate200000000", "g.tempstate100000000"]
        );
    }
}
