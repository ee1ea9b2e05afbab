//! [`EventFile`]: the file in which a run leaves its summaries for TensorBoard.
//!
//! Time and host come from the caller, so that a test can say what the file will be.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use prost::Message;
use tensorfleet_core::Result;
use tensorfleet_proto::tensorflow::event::What;
use tensorfleet_proto::tensorflow::{Event, SourceMetadata};

use crate::atomic_file::io_status;
use crate::record::{Compression, RecordWriter};

/// What TensorBoard expects of the first event.
const FILE_VERSION: &str = "brain.Event:2";
/// TensorFlow 2.x names its writer; readers of files compare the first record.
const WRITER: &str = "tensorflow.core.util.events_writer";

/// An event file being written. Events are gathered in memory until [`EventFile::flush`].
pub struct EventFile {
    path: PathBuf,
    records: RecordWriter<BufWriter<File>>,
}

impl EventFile {
    /// Starts `events.out.tfevents.SECONDS.HOST SUFFIX` in `directory`, which is made if it is missing, and writes
    /// the first event to the disk. An existing file of that name is extended.
    pub fn create(directory: &Path, host: &str, suffix: &str, wall_time: f64) -> Result<EventFile> {
        std::fs::create_dir_all(directory).map_err(|error| io_status(directory, &error))?;
        let path = directory.join(format!("events.out.tfevents.{:010}.{host}{suffix}", wall_time as i64));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| io_status(&path, &error))?;
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
