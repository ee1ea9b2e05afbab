//! Readers as ops: making them, reading from them, and what they have done so far.

use std::sync::Arc;

use bytes::Bytes;
use tensorfleet_core::{PartialShape, Result, Tensor, bail, ensure};
use tensorfleet_files::record::Compression;

use super::formats::{FixedLength, Format};
use super::{Reader, Record};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Done, KernelBox, tensor_outputs};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_ops_state::state::naming::{Owner, handle_shape, no_outputs};
use tensorfleet_ops_state::state::queue::Queue;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    maker("TextLineReaderV2")
        .attrs("skip_header_lines: int = 0; container: string = ''; shared_name: string = ''")
        .kernel(text_line),
    maker("FixedLengthRecordReaderV2")
        .attrs(
            "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; \
             container: string = ''; shared_name: string = ''; encoding: string = ''",
        )
        .kernel(fixed_length),
    maker("TFRecordReaderV2")
        .attrs("container: string = ''; shared_name: string = ''; compression_type: string = ''")
        .kernel(tf_record),
    maker("WholeFileReaderV2")
        .attrs("container: string = ''; shared_name: string = ''")
        .kernel(|node| make(node, || Ok(Format::Whole))),
    maker("IdentityReaderV2")
        .attrs("container: string = ''; shared_name: string = ''")
        .kernel(|node| make(node, || Ok(Format::Name))),
    Op::new("ReaderReadV2", "reader_handle: resource, queue_handle: resource -> key: string, value: string")
        .work(Work::Inputs)
        .stateful()
        .shape(scalars)
        .kernel(|_| Ok(KernelBox::new_async(ReadKernel { is_batch: false }))),
    Op::new(
        "ReaderReadUpToV2",
        "reader_handle: resource, queue_handle: resource, num_records: int64 -> keys: string, values: string",
    )
    .work(Work::Inputs)
    .stateful()
    .shape(batch_shape)
    .kernel(|_| Ok(KernelBox::new_async(ReadKernel { is_batch: true }))),
    Op::new("ReaderNumRecordsProducedV2", "reader_handle: resource -> records_produced: int64")
        .stateful()
        .shape(scalars)
        .kernel(|_| count(Reader::records_produced))
        .cost(Cost::Trivial),
    Op::new("ReaderNumWorkUnitsCompletedV2", "reader_handle: resource -> units_completed: int64")
        .stateful()
        .shape(scalars)
        .kernel(|_| count(Reader::files_finished))
        .cost(Cost::Trivial),
    Op::new("ReaderResetV2", "reader_handle: resource ->")
        .work(Work::Inputs)
        .stateful()
        .shape(no_outputs)
        .kernel(reset),
];

const fn maker(name: &'static str) -> Op {
    Op::new(name, "-> reader_handle: resource").stateful().shape(handle_shape).cost(Cost::Trivial)
}

fn batch_shape(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::vector(None); 2])
}

fn make(
    node: &NodeSpec<'_>,
    format: impl Fn() -> Result<Format> + Send + Sync + 'static,
) -> Result<KernelBox> {
    // Says now, not in the first step, if the attributes make no sense.
    format()?;
    let owner = Owner::<Reader>::new(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let handle =
            owner.handle(ctx.step, |_| Ok(Reader::new(format()?, ctx.file_access().clone())), |_| Ok(()))?;
        ctx.set_output(0, handle);
        Ok(())
    }))
}

fn text_line(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let skipped: i64 = node.attr("skip_header_lines")?;
    ensure!(skipped >= 0, InvalidArgument, "skip_header_lines must be >= 0 not {skipped}");
    make(node, move || Ok(Format::Lines { skipped: skipped as u64 }))
}

fn fixed_length(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let bytes = |name: &str, least: i64| {
        let value: i64 = node.attr(name)?;
        ensure!(value >= least, InvalidArgument, "{name} must be >= {least} not {value}");
        Ok(value as u64)
    };
    let record = bytes("record_bytes", 1)?;
    let hop = match bytes("hop_bytes", 0)? {
        0 => record,
        hop => hop,
    };
    let zlib = match node.attr::<String>("encoding")?.as_str() {
        "" => false,
        "ZLIB" => true,
        other => bail!(InvalidArgument, "encoding must be '' or 'ZLIB', not {other}"),
    };
    let measures = FixedLength {
        header: bytes("header_bytes", 0)?,
        record,
        footer: bytes("footer_bytes", 0)?,
        hop,
        zlib,
    };
    make(node, move || Ok(Format::Fixed(measures)))
}

fn tf_record(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let compression = Compression::from_name(&node.attr::<String>("compression_type")?)?;
    make(node, move || Ok(Format::TfRecords(compression)))
}

/// `ReaderRead` gives one record, `ReaderReadUpTo` a batch of some.
struct ReadKernel {
    is_batch: bool,
}

impl ReadKernel {
    fn prepare(&self, ctx: &AsyncContext) -> Result<(Arc<Reader>, Arc<Queue>, usize)> {
        let count: i64 = if self.is_batch { ctx.input(2)?.to_scalar()? } else { 1 };
        ensure!(count > 0, InvalidArgument, "num_records must be positive, got {count}");
        Ok((ctx.resource(0)?, ctx.resource(1)?, count as usize))
    }
}

impl AsyncKernel for ReadKernel {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let is_batch = self.is_batch;
        match self.prepare(&ctx) {
            Err(status) => done(Err(status), resume),
            Ok((reader, queue, count)) => {
                let read = move |records: Result<Vec<Record>>, resume: Resume<'_>| {
                    let outputs = records.and_then(|records| outputs(records, is_batch));
                    done(outputs.map(tensor_outputs), resume);
                };
                reader.read(count, queue, ctx.step.cancellation.clone(), Box::new(read), resume);
            }
        }
    }
}

fn outputs(records: Vec<Record>, is_batch: bool) -> Result<[Tensor; 2]> {
    let dims: &[usize] = if is_batch { &[records.len()] } else { &[] };
    let (keys, values): (Vec<Bytes>, Vec<Bytes>) =
        records.into_iter().map(|record| (record.key.into(), record.value)).unzip();
    Ok([Tensor::from_strings(keys, dims)?, Tensor::from_strings(values, dims)?])
}

fn count(get: fn(&Reader) -> i64) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let count = get(&*ctx.resource::<Reader>(0)?);
        ctx.set_output(0, Tensor::scalar(count));
        Ok(())
    }))
}

fn reset(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.resource::<Reader>(0)?.reset();
        Ok(())
    }))
}
