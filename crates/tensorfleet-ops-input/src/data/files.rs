//! Datasets out of files: lines, TFRecords, stretches of equal length.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use tensorfleet_core::{Result, Tensor, ensure, memory};
use tensorfleet_files::io_status;
use tensorfleet_files::record::{Compression, RecordReader};

use super::dataset::{Dataset, DatasetIterator, Element, ElementSpec, Nesting, kernel, scalar};
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    file_op(
        "TextLineDataset",
        "filenames: string, compression_type: string, buffer_size: int64 -> handle: variant",
    )
    .kernel(text_lines),
    file_op(
        "TFRecordDataset",
        "filenames: string, compression_type: string, buffer_size: int64 -> handle: variant",
    )
    .kernel(tf_records),
    file_op(
        "TFRecordDatasetV2",
        "filenames: string, compression_type: string, buffer_size: int64, byte_offsets: int64 -> handle: variant",
    )
    .kernel(tf_records_at_offsets),
    file_op(
        "FixedLengthRecordDataset",
        "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64 -> \
         handle: variant",
    )
    .kernel(fixed_length),
    file_op(
        "FixedLengthRecordDatasetV2",
        "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64, \
         compression_type: string -> handle: variant",
    )
    .kernel(fixed_length),
];

const fn file_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature)
        .attrs("metadata: string = ''")
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
}

/// What is read between disk and records when nobody says.
const BUFFER_BYTES: usize = 256 << 10;

/// The largest buffer one may ask for.
const MAX_BUFFER_BYTES: i64 = 64 << 20;

#[derive(Clone, Copy)]
enum Format {
    Lines,
    TfRecords,
    Fixed { header: u64, record: u64, footer: u64 },
}

/// The records of files, one file after the other.
struct Files {
    spec: ElementSpec,
    names: Vec<PathBuf>,
    access: FileAccess,
    /// Where to begin in each file, if not at its start.
    offsets: Vec<u64>,
    format: Format,
    compression: Compression,
    buffer_bytes: usize,
}

fn text_lines(_: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(|ctx| Ok(Arc::new(Files::new(ctx, Format::Lines, Some(1), 2)?)))
}

fn tf_records(_: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(|ctx| Ok(Arc::new(Files::new(ctx, Format::TfRecords, Some(1), 2)?)))
}

fn tf_records_at_offsets(_: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(|ctx| {
        let mut files = Files::new(ctx, Format::TfRecords, Some(1), 2)?;
        let offsets = ctx.input(3)?.as_slice::<i64>()?;
        ensure!(
            offsets.is_empty() || offsets.len() == files.names.len(),
            InvalidArgument,
            "There are {} byte_offsets for {} files: expected as many, or none",
            offsets.len(),
            files.names.len()
        );
        for &offset in offsets {
            ensure!(offset >= 0, InvalidArgument, "byte_offsets must not be negative, got {offset}");
            files.offsets.push(offset as u64);
        }
        Ok(Arc::new(files))
    })
}

fn fixed_length(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let compression = (node.node().inputs.len() > 5).then_some(5);
    kernel(move |ctx| {
        let measure = |index: usize, name: &str| {
            let value = scalar::<i64>(ctx, index, name)?;
            ensure!(value >= 0, InvalidArgument, "{name} must be >= 0, got {value}");
            Ok(value as u64)
        };
        let (header, record, footer) =
            (measure(1, "header_bytes")?, measure(2, "record_bytes")?, measure(3, "footer_bytes")?);
        ensure!(record > 0, InvalidArgument, "record_bytes must be > 0");
        Ok(Arc::new(Files::new(ctx, Format::Fixed { header, record, footer }, compression, 4)?))
    })
}

impl Files {
    fn new(ctx: &Context<'_>, format: Format, compression: Option<usize>, buffer: usize) -> Result<Files> {
        let names = ctx.input(0)?;
        ensure!(names.shape().rank() <= 1, InvalidArgument, "`filenames` must be a scalar or a vector.");
        let path = |name: &Bytes| PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let names: Vec<PathBuf> = names.as_strings()?.iter().map(path).collect();
        let compression = match compression {
            Some(index) => {
                let name = ctx.input(index)?.to_string_scalar()?;
                Compression::from_name(&String::from_utf8_lossy(name))?
            }
            None => Compression::None,
        };
        let buffer_bytes = scalar::<i64>(ctx, buffer, "buffer_size")?;
        // 0, and what TensorFlow 2.21 sends if nobody says, -1, leave the choice to the runtime.
        ensure!(buffer_bytes >= -1, InvalidArgument, "`buffer_size` must be >= 0 (0 == default)");
        let buffer_bytes = match buffer_bytes {
            -1 | 0 => BUFFER_BYTES,
            bytes => bytes.min(MAX_BUFFER_BYTES) as usize,
        };
        Ok(Files {
            spec: ElementSpec::strings(),
            names,
            access: ctx.file_access().clone(),
            offsets: Vec::new(),
            format,
            compression,
            buffer_bytes,
        })
    }

    fn open(&self, index: usize) -> Result<OpenFile> {
        let path = &self.names[index];
        if let Format::TfRecords = self.format {
            let mut reader = RecordReader::open(&self.access, path, self.compression)?;
            if let Some(&offset) = self.offsets.get(index) {
                reader.skip_to(offset)?;
            }
            return Ok(OpenFile::Records(reader));
        }
        let file = self.access.open(path)?;
        let length = file.metadata().map_err(|error| io_status(path, &error))?.len();
        let source: Box<dyn Read + Send> = match self.compression {
            Compression::None => Box::new(file),
            Compression::Zlib => Box::new(ZlibDecoder::new(file)),
            Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        };
        let input = BufReader::with_capacity(self.buffer_bytes, source);
        Ok(match self.format {
            Format::Fixed { header, record, footer } => {
                let length = (self.compression == Compression::None).then_some(length);
                OpenFile::Stretches(Stretches::open(path, input, (header, record, footer), length)?)
            }
            _ => OpenFile::Lines(input),
        })
    }
}

impl Dataset for Files {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(FileIterator { files: self, next: 0, open: None }))
    }
}

enum OpenFile {
    Records(RecordReader),
    Lines(BufReader<Box<dyn Read + Send>>),
    Stretches(Stretches),
}

impl OpenFile {
    fn next(&mut self, path: &Path) -> Result<Option<Bytes>> {
        match self {
            OpenFile::Records(reader) => Ok(reader.next_record()?.map(Bytes::from)),
            OpenFile::Lines(input) => {
                let mut line = Vec::new();
                let read = memory::read_until(input, b'\n', &mut line)?;
                let read = read.map_err(|error| io_status(path, &error))?;
                // TensorFlow drops carriage returns wherever they stand.
                line.retain(|byte| !matches!(byte, b'\n' | b'\r'));
                Ok((read > 0).then(|| line.into()))
            }
            OpenFile::Stretches(stretches) => stretches.next(path),
        }
    }
}

/// Stretches of a file, the last of which ends before the footer.
struct Stretches {
    input: BufReader<Box<dyn Read + Send>>,
    record: u64,
    footer: u64,
    /// What has been read beyond the last record: as long as the footer, once there is so much.
    ahead: Vec<u8>,
}

impl Stretches {
    fn open(
        path: &Path,
        mut input: BufReader<Box<dyn Read + Send>>,
        (header, record, footer): (u64, u64, u64),
        length: Option<u64>,
    ) -> Result<Stretches> {
        if let Some(length) = length {
            let body = length.checked_sub(header).and_then(|rest| rest.checked_sub(footer));
            ensure!(
                body.is_some_and(|body| body % record == 0),
                InvalidArgument,
                "Excluding the header ({header} bytes) and footer ({footer} bytes), input file \"{}\" has body length \
                 {} bytes, which is not an exact multiple of the record length ({record} bytes).",
                path.display(),
                length as i128 - header as i128 - footer as i128
            );
        }
        std::io::copy(&mut (&mut input).take(header), &mut std::io::sink())
            .map_err(|error| io_status(path, &error))?;
        Ok(Stretches { input, record, footer, ahead: Vec::new() })
    }

    fn next(&mut self, path: &Path) -> Result<Option<Bytes>> {
        let wanted = self.record.saturating_add(self.footer).saturating_sub(self.ahead.len() as u64);
        let mut bytes = std::mem::take(&mut self.ahead);
        // Memory grows with what is there, not with what a length claims.
        let before = bytes.len();
        let read = memory::read_to_end(&mut (&mut self.input).take(wanted), &mut bytes)?;
        read.map_err(|error| io_status(path, &error))?;
        if ((bytes.len() - before) as u64) < wanted {
            return Ok(None);
        }
        self.ahead = bytes.split_off(self.record as usize);
        Ok(Some(bytes.into()))
    }
}

struct FileIterator {
    files: Arc<Files>,
    next: usize,
    open: Option<OpenFile>,
}

impl DatasetIterator for FileIterator {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        loop {
            if self.open.is_none() {
                if self.next >= self.files.names.len() {
                    return Ok(None);
                }
                if let Some(reason) = ctx.cancellation.reason() {
                    return Err(reason);
                }
                let index = self.next;
                self.next += 1;
                self.open = Some(self.files.open(index)?);
            }
            let Some(open) = &mut self.open else { continue };
            match open.next(&self.files.names[self.next - 1]) {
                Ok(Some(record)) => return Ok(Some(vec![Tensor::string(record)])),
                Ok(None) => self.open = None,
                Err(status) => {
                    // What follows a broken record cannot be found: the next file is the next chance.
                    self.open = None;
                    return Err(status);
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        false
    }
}
