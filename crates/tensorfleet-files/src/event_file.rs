//! [`EventFile`]: the file in which a run leaves its summaries for TensorBoard; [`EventReader`] reads it back.
//!
//! Time and host come from the caller, so that a test can say what the file will be.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use prost::Message;
use tensorfleet_core::{Code, Result, Status};
use tensorfleet_proto::tensorflow::event::What;
use tensorfleet_proto::tensorflow::{Event, SourceMetadata};

use crate::file_access::FileAccess;
use crate::io_status::io_status;
use crate::record::{Compression, RecordReader, RecordWriter};

/// What TensorBoard expects of the first event.
const FILE_VERSION: &str = "brain.Event:2";
/// TensorFlow 2.x names its writer; readers of files compare the first record.
const WRITER: &str = "tensorflow.core.util.events_writer";
/// How many later seconds are tried if a file has the name already. Writers that begin in the same second are few.
const MAX_RENAMINGS: i64 = 1000;

/// An event file being written. Events are gathered in memory until [`EventFile::flush`].
pub struct EventFile {
    path: PathBuf,
    records: RecordWriter<BufWriter<File>>,
}

impl EventFile {
    /// Starts `events.out.tfevents.SECONDS.HOST SUFFIX` in `directory`, which is made if it is missing, and writes
    /// the first event to the disk. If there is a file of that name, the next free second names the new one: two
    /// writers must never share a file, and TensorBoard reads the files of a directory in the order of their names.
    pub fn create(
        access: &FileAccess,
        directory: &Path,
        host: &str,
        suffix: &str,
        wall_time: f64,
    ) -> Result<EventFile> {
        access.create_dir_all(directory)?;
        let (path, file) = create_new(access, directory, host, suffix, wall_time as i64)?;
        let records = RecordWriter::new(BufWriter::new(file), Compression::None);
        let mut event_file = EventFile { path, records };
        event_file.write(&Event {
            wall_time,
            what: Some(What::FileVersion(FILE_VERSION.to_string())),
            source_metadata: Some(SourceMetadata { writer: WRITER.to_string() }),
            ..Default::default()
        })?;
        event_file.flush()?;
        Ok(event_file)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        self.records.write(&event.encode_to_vec()).map_err(|error| io_status(&self.path, &error))
    }

    /// Hands all events to the operating system, where readers see them.
    pub fn flush(&mut self) -> Result<()> {
        self.records.flush().map_err(|error| io_status(&self.path, &error))
    }
}

fn create_new(
    access: &FileAccess,
    directory: &Path,
    host: &str,
    suffix: &str,
    seconds: i64,
) -> Result<(PathBuf, File)> {
    let mut later = 0;
    loop {
        let name = format!("events.out.tfevents.{:010}.{host}{suffix}", seconds.saturating_add(later));
        let path = directory.join(name);
        match access.entry(&path)?.create_new() {
            Ok(file) => return Ok((path, file)),
            Err(status) if status.code() == Code::AlreadyExists && later < MAX_RENAMINGS => later += 1,
            Err(status) => return Err(status),
        }
    }
}

/// The events of a file in order. What is cut short or does not fit its checksum ends them with an error.
pub struct EventReader {
    path: PathBuf,
    records: RecordReader,
    ended: bool,
}

impl EventReader {
    /// Opens a file.
    pub fn open(access: &FileAccess, path: impl Into<PathBuf>) -> Result<EventReader> {
        let path = path.into();
        Ok(EventReader { records: RecordReader::open(access, &path, Compression::None)?, path, ended: false })
    }

    fn read(&mut self) -> Result<Option<Event>> {
        let at = self.records.offset();
        let Some(record) = self.records.next_record()? else { return Ok(None) };
        Event::decode(&record[..]).map(Some).map_err(|error| {
            Status::data_loss(format!("the record at {at} in {} is no event: {error}", self.path.display()))
        })
    }
}

impl Iterator for EventReader {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
