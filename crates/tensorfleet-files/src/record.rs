//! Record files (TFRecord): a length, its checksum, the data, its checksum, and so on to the end of the file.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use tensorfleet_core::{Result, Status, ensure, excerpt, memory};

use crate::checksum;
use crate::file_access::FileAccess;
use crate::io_status::io_status;

const HEADER_BYTES: usize = 12;
const FOOTER_BYTES: usize = 4;
const BUFFER_BYTES: usize = 256 << 10;

/// How a whole record file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// One zlib stream.
    Zlib,
    /// Gzip members.
    Gzip,
}

impl Compression {
    /// The compression that TensorFlow's ops call `name`: empty, `ZLIB` or `GZIP`.
    pub fn from_name(name: &str) -> Result<Compression> {
        match name {
            "" => Ok(Compression::None),
            "ZLIB" => Ok(Compression::Zlib),
            "GZIP" => Ok(Compression::Gzip),
            _ => Err(Status::invalid_argument(format!("Unsupported compression_type: {}", excerpt(name)))),
        }
    }
}

/// Reads the records of a file in order.
pub struct RecordReader {
    input: Box<dyn Read + Send>,
    path: PathBuf,
    offset: u64,
}

impl RecordReader {
    /// Opens a file.
    pub fn open(
        access: &FileAccess,
        path: impl Into<PathBuf>,
        compression: Compression,
    ) -> Result<RecordReader> {
        let path = path.into();
        let file = access.open(&path)?;
        Ok(RecordReader::new(path, Box::new(file), compression))
    }

    /// Reads from any source; `path` is for messages.
    pub fn new(path: PathBuf, source: Box<dyn Read + Send>, compression: Compression) -> RecordReader {
        let input: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(BufReader::with_capacity(BUFFER_BYTES, source)),
            Compression::Zlib => Box::new(BufReader::new(ZlibDecoder::new(source))),
            Compression::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(source))),
        };
        RecordReader { input, path, offset: 0 }
    }

    /// Goes on at `offset`, where a record starts, in the uncompressed file. One beyond the end is the end.
    pub fn skip_to(&mut self, offset: u64) -> Result<()> {
        let distance = offset.saturating_sub(self.offset);
        let skipped = io::copy(&mut (&mut self.input).take(distance), &mut io::sink());
        self.offset += skipped.map_err(|error| io_status(&self.path, &error))?;
        Ok(())
    }

    /// Where the next record starts, in the uncompressed file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or `None` at the end. A record that is cut short or does not fit its checksum is lost.
    pub fn next_record(&mut self) -> Result<Option<Vec<u8>>> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            match self.input.read(&mut header[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.truncated()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let Some(length) = header.first_chunk::<8>() else { return Err(self.truncated()) };
        self.check(length, &header[8..])?;
        let length = u64::from_le_bytes(*length);
        let with_footer = length.checked_add(FOOTER_BYTES as u64).ok_or_else(|| self.truncated())?;
        let mut data = self.take(with_footer)?;
        if data.len() as u64 != with_footer {
            return Err(self.truncated());
        }
        let (content, footer) = data.split_at(length as usize);
        self.check(content, footer)?;
        data.truncate(length as usize);
        self.offset += (HEADER_BYTES as u64) + with_footer;
        Ok(Some(data))
    }

    /// Up to `count` bytes. Memory grows with what is there, not with what a length claims.
    fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        if count <= BUFFER_BYTES as u64 {
            let mut bytes = vec![0; count as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match self.input.read(&mut bytes[filled..]) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.failed(&error)),
                }
            }
            bytes.truncate(filled);
            return Ok(bytes);
        }
        // A small file, decompressed, may well have as many bytes as it claims.
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        match memory::read_to_end(&mut (&mut self.input).take(count), &mut bytes)? {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.failed(&error)),
        }
    }

    #[cold]
    fn failed(&self, error: &io::Error) -> Status {
        match error.kind() {
            // A compressed file that ends early.
            io::ErrorKind::UnexpectedEof => self.truncated(),
            io::ErrorKind::InvalidInput => Status::data_loss(format!("{}; {error}", self.path.display())),
            _ => io_status(&self.path, error),
        }
    }

    fn check(&self, bytes: &[u8], stored: &[u8]) -> Result<()> {
        ensure!(
            checksum::masked_crc(bytes).to_le_bytes() == stored,
            DataLoss,
            "corrupted record at {} in {}",
            self.offset,
            self.path.display()
        );
        Ok(())
    }

    #[cold]
    fn truncated(&self) -> Status {
        Status::data_loss(format!("truncated record at {} in {}", self.offset, self.path.display()))
    }
}

/// Writes records to a file.
pub struct RecordWriter<W: Write> {
    output: Output<W>,
}

enum Output<W: Write> {
    Plain(W),
    Zlib(ZlibEncoder<W>),
    Gzip(GzEncoder<W>),
}

impl<W: Write> RecordWriter<W> {
    /// Writes to `output`.
    pub fn new(output: W, compression: Compression) -> RecordWriter<W> {
        let level = flate2::Compression::default();
        let output = match compression {
            Compression::None => Output::Plain(output),
            Compression::Zlib => Output::Zlib(ZlibEncoder::new(output, level)),
            Compression::Gzip => Output::Gzip(GzEncoder::new(output, level)),
        };
        RecordWriter { output }
    }

    /// Appends a record.
    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let output = self.output.as_write();
        output.write_all(&length)?;
        output.write_all(&checksum::masked_crc(&length).to_le_bytes())?;
        output.write_all(data)?;
        output.write_all(&checksum::masked_crc(data).to_le_bytes())
    }

    /// Passes on what has been gathered so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.as_write().flush()
    }

    /// Ends a compressed stream and gives back the output.
    pub fn finish(self) -> io::Result<W> {
        match self.output {
            Output::Plain(output) => Ok(output),
            Output::Zlib(encoder) => encoder.finish(),
            Output::Gzip(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Output<W> {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Output::Plain(output) => output,
            Output::Zlib(encoder) => encoder,
            Output::Gzip(encoder) => encoder,
        }
    }
}

/// The records of a whole file.
pub fn read_all(access: &FileAccess, path: &Path, compression: Compression) -> Result<Vec<Vec<u8>>> {
    let mut reader = RecordReader::open(access, path, compression)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}
