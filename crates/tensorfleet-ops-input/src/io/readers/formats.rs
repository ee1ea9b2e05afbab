//! How files are cut into records.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::ZlibDecoder;
use tensorfleet_core::{Result, Status, memory};
use tensorfleet_files::record::{Compression, RecordReader};
use tensorfleet_files::{FileAccess, io_status};

use super::Record;

/// What a file's records are.
pub(super) enum Format {
    /// Lines, the first ones skipped.
    Lines {
        /// How many lines are no records.
        skipped: u64,
    },
    /// Stretches of equal length between a header and a footer.
    Fixed(FixedLength),
    /// TFRecords.
    TfRecords(Compression),
    /// The whole file is one record.
    Whole,
    /// The name itself is the record; there is no file.
    Name,
}

/// The measures of records of equal length, in bytes.
#[derive(Clone, Copy)]
pub(super) struct FixedLength {
    pub(super) header: u64,
    pub(super) record: u64,
    pub(super) footer: u64,
    /// From the start of a record to the start of the next.
    pub(super) hop: u64,
    /// Whether the file is a zlib stream.
    pub(super) zlib: bool,
}

/// The records of an open file.
pub(super) trait Records: Send {
    /// The next record; `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>>;
}

impl Format {
    /// Opens a file.
    pub(super) fn open(&self, access: &FileAccess, path: &str) -> Result<Box<dyn Records>> {
        Ok(match self {
            Format::Lines { skipped } => Box::new(Lines::open(access.open(path)?, path, *skipped)?),
            Format::Fixed(measures) => Box::new(Stretches::open(access.open(path)?, path, *measures)?),
            Format::TfRecords(compression) => Box::new(TfRecords {
                path: path.to_string(),
                reader: RecordReader::open(access, path, *compression)?,
            }),
            Format::Whole => {
                let value = access.read(path)?;
                Box::new(Single(Some(Record { key: path.to_string(), value: value.into() })))
            }
            Format::Name => {
                let value = Bytes::from(path.to_string());
                Box::new(Single(Some(Record { key: path.to_string(), value })))
            }
        })
    }
}

struct Single(Option<Record>);

impl Records for Single {
    fn next_record(&mut self) -> Result<Option<Record>> {
        Ok(self.0.take())
    }
}

struct TfRecords {
    path: String,
    reader: RecordReader,
}

impl Records for TfRecords {
    fn next_record(&mut self) -> Result<Option<Record>> {
        let key = format!("{}:{}", self.path, self.reader.offset());
        Ok(self.reader.next_record()?.map(|value| Record { key, value: value.into() }))
    }
}

struct Lines {
    path: PathBuf,
    input: BufReader<File>,
    number: u64,
}

impl Lines {
    fn open(file: File, path: &str, skipped: u64) -> Result<Lines> {
        let mut lines = Lines { path: path.into(), input: BufReader::new(file), number: 0 };
        for _ in 0..skipped {
            if lines.next_record()?.is_none() {
                break;
            }
        }
        Ok(lines)
    }
}

impl Records for Lines {
    fn next_record(&mut self) -> Result<Option<Record>> {
        let mut line = Vec::new();
        let read = memory::read_until(&mut self.input, b'\n', &mut line)?;
        if read.map_err(|error| io_status(&self.path, &error))? == 0 {
            return Ok(None);
        }
        // TensorFlow drops carriage returns wherever they stand.
        line.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        self.number += 1;
        Ok(Some(Record { key: format!("{}:{}", self.path.display(), self.number), value: line.into() }))
    }
}

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

struct Stretches {
    path: PathBuf,
    input: Box<dyn ReadSeek>,
    measures: FixedLength,
    position: u64,
    /// Where the footer starts.
    end: u64,
    number: u64,
}

impl Stretches {
    fn open(file: File, path: &str, measures: FixedLength) -> Result<Stretches> {
        let failed = |error: std::io::Error| io_status(Path::new(path), &error);
        let (input, len): (Box<dyn ReadSeek>, u64) = if measures.zlib {
            let mut content = Vec::new();
            memory::read_to_end(&mut ZlibDecoder::new(file), &mut content)?.map_err(failed)?;
            let len = content.len() as u64;
            (Box::new(Cursor::new(content)), len)
        } else {
            let len = file.metadata().map_err(failed)?.len();
            (Box::new(BufReader::new(file)), len)
        };
        let end = len.saturating_sub(measures.footer);
        Ok(Stretches { path: path.into(), input, measures, position: measures.header, end, number: 0 })
    }
}

impl Records for Stretches {
    fn next_record(&mut self) -> Result<Option<Record>> {
        let FixedLength { record, hop, .. } = self.measures;
        if self.position.checked_add(record).is_none_or(|end| end > self.end) {
            return Ok(None);
        }
        let len =
            usize::try_from(record).map_err(|_| Status::resource_exhausted("record_bytes is too large"))?;
        let mut value = memory::vec_with_room(len)?;
        value.resize(len, 0);
        let seek = self.input.seek(std::io::SeekFrom::Start(self.position));
        seek.and_then(|_| self.input.read_exact(&mut value))
            .map_err(|error| io_status(&self.path, &error))?;
        let key = format!("{}:{}", self.path.display(), self.number);
        self.number += 1;
        self.position = self.position.saturating_add(hop);
        Ok(Some(Record { key, value: value.into() }))
    }
}
