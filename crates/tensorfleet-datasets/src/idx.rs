//! Reader of the idx format: a magic number, the dimensions, then one byte per pixel or label; all of it gzipped or not.
//!
//! Files come from anywhere, so nothing they say is believed. The sizes in the header are checked before they are used, and
//! memory grows only as bytes really arrive: a small file cannot ask for a large allocation. Each error is one sentence that
//! names the file, what was expected, what was found, and what to do.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use tensorfleet_core::{Code, Result, Status, bail, ensure};

use crate::data_set::CLASSES;

/// Width and height of an image.
const SIDE: u32 = 28;

/// More examples than any data set of this kind has (EMNIST's largest has 697 932); an upper bound for what one file may
/// make a program read into memory: 784 MB.
const MAX_EXAMPLES: u32 = 1_000_000;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// 28 × 28 bytes per example.
    Images,
    /// One byte per example, below [`CLASSES`].
    Labels,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Images => "images",
            Kind::Labels => "labels",
        }
    }

    /// Two zeros, the type (8: unsigned bytes), the number of dimensions.
    fn magic(self) -> u32 {
        match self {
            Kind::Images => 0x0000_0803,
            Kind::Labels => 0x0000_0801,
        }
    }

    fn header_bytes(self) -> usize {
        match self {
            Kind::Images => 16,
            Kind::Labels => 8,
        }
    }

    pub(crate) fn example_bytes(self) -> usize {
        match self {
            Kind::Images => (SIDE * SIDE) as usize,
            Kind::Labels => 1,
        }
    }
}

/// The content of a file after its header.
pub(crate) fn read_file(path: &Path, kind: Kind) -> Result<Bytes> {
    let name = path.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Status::not_found(format!("{name} does not exist")),
        io::ErrorKind::PermissionDenied => Status::new(
            Code::PermissionDenied,
            format!("{name} may not be read by this user: change its permissions"),
        ),
        _ => Status::new(Code::Unknown, format!("{name} cannot be read: {error}")),
    };
    let file = File::open(path).map_err(failed)?;
    let is_directory = file.metadata().map_err(failed)?.is_dir();
    ensure!(
        !is_directory,
        FailedPrecondition,
        "{name} is a directory instead of an idx file: put the file itself in its place"
    );
    read(BufReader::new(file), kind, &name.to_string())
}

/// The content after the header; `name` is for errors.
pub(crate) fn read(mut source: impl BufRead, kind: Kind, name: &str) -> Result<Bytes> {
    let is_gzip = source.fill_buf().map_err(|error| unreadable(&error, name))?.starts_with(&[0x1f, 0x8b]);
    if is_gzip { read_plain(MultiGzDecoder::new(source), kind, name) } else { read_plain(source, kind, name) }
}

fn read_plain(mut source: impl Read, kind: Kind, name: &str) -> Result<Bytes> {
    let mut header = Vec::new();
    read_up_to(&mut source, kind.header_bytes(), &mut header, name)?;
    let count = check_header(&header, kind, name)?;
    // Cannot overflow: a million times 784.
    let expected = count as usize * kind.example_bytes();
    let mut content = Vec::new();
    // One byte more than expected shows whether there is more; and reaching the end checks the sum of a gzip file.
    read_up_to(&mut source, expected + 1, &mut content, name)?;
    let found = content.len();
    let what = kind.name();
    ensure!(
        found >= expected,
        DataLoss,
        "{name} is truncated: its {count} {what} need {expected} bytes after the header and there are {found}; fetch the file anew"
    );
    ensure!(
        found == expected,
        DataLoss,
        "{name} goes on after the {expected} bytes of its {count} {what}: it is not the file its header describes; fetch it anew"
    );
    if kind == Kind::Labels {
        check_labels(&content, name)?;
    }
    Ok(content.into())
}

/// The number of examples.
fn check_header(header: &[u8], kind: Kind, name: &str) -> Result<u32> {
    let mut words = header.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let what = kind.name();
    if let Some(magic) = words.next()
        && magic != kind.magic()
    {
        bail!(
            InvalidArgument,
            "{name} is not an idx file of {what}: it begins with {magic:#010x} instead of {:#010x}; put the right file there",
            kind.magic()
        );
    }
    ensure!(
        header.len() == kind.header_bytes(),
        DataLoss,
        "{name} is truncated: the header of an idx file of {what} has {} bytes and there are {}; fetch the file anew",
        kind.header_bytes(),
        header.len()
    );
    let count = words.next().unwrap_or_default();
    if let (Some(rows), Some(columns)) = (words.next(), words.next()) {
        ensure!(
            (rows, columns) == (SIDE, SIDE),
            InvalidArgument,
            "{name} has images of {rows} × {columns} pixels, but the model needs {SIDE} × {SIDE}: scale them or use MNIST's files"
        );
    }
    ensure!(
        count <= MAX_EXAMPLES,
        InvalidArgument,
        "{name} claims to hold {count} {what}, which is more than the {MAX_EXAMPLES} that are read: the header is damaged or the file must be split"
    );
    Ok(count)
}

fn check_labels(labels: &[u8], name: &str) -> Result<()> {
    let Some(index) = labels.iter().position(|&label| usize::from(label) >= CLASSES) else { return Ok(()) };
    bail!(
        InvalidArgument,
        "{name} has the label {} at index {index}, but labels go from 0 to {}: fetch the file anew or use one with ten classes",
        labels.get(index).copied().unwrap_or_default(),
        CLASSES - 1
    )
}

fn read_up_to(source: &mut impl Read, bytes: usize, content: &mut Vec<u8>, name: &str) -> Result<()> {
    source.take(bytes as u64).read_to_end(content).map_err(|error| unreadable(&error, name))?;
    Ok(())
}

/// An error of the file system or of the gzip reader, which uses `InvalidInput` and `InvalidData` for damage and
/// `UnexpectedEof` for an end in the middle.
fn unreadable(error: &io::Error, name: &str) -> Status {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Status::data_loss(format!(
            "{name} is truncated: its gzip data end in the middle; fetch the file anew"
        )),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Status::data_loss(format!("{name} is corrupt: {error}; fetch the file anew"))
        }
        _ => Status::new(Code::Unknown, format!("{name} cannot be read: {error}")),
    }
}

#[cfg(test)]
#[path = "idx_tests.rs"]
mod tests;
