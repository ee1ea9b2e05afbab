//! Saving tensors to checkpoints and restoring them.
//!
//! The format and its safety belong to `tensorfleet-files`; these ops turn names, slice specs and dtypes into calls.

use std::path::Path;

use bytes::Bytes;
use tensorfleet_core::{Code, DType, PartialShape, Result, Shape, Status, Tensor, ensure, excerpt};
use tensorfleet_files::FileAccess;
use tensorfleet_files::bundle::{self, BundleReader, BundleWriter};
use tensorfleet_files::slice_file::SliceFiles;
use tensorfleet_files::tensor_slice::{ShapeAndSlice, TensorSlice};
use tensorfleet_threads::Loops;

use super::files::files_matching;

use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SaveV2", "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes ->")
        .attrs("dtypes: list(type) >= 1")
        .stateful()
        .shape(save_shape)
        .kernel(save)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("RestoreV2", "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes")
        .attrs("dtypes: list(type) >= 1")
        .stateful()
        .shape(restore_shape)
        .kernel(restore)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("MergeV2Checkpoints", "checkpoint_prefixes: string, destination_prefix: string ->")
        .attrs("delete_old_dirs: bool = true; allow_missing_files: bool = false")
        .stateful()
        .shape(merge_shape)
        .kernel(merge)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string")
        .shape(scalars)
        .kernel(sharded_filename)
        .cost(Cost::Trivial),
    Op::new("ShardedFilespec", "basename: string, num_shards: int32 -> filename: string")
        .shape(scalars)
        .kernel(sharded_filespec)
        .cost(Cost::Trivial),
];

/// Restoring less than this is not worth other threads.
const PARALLEL_FROM_BYTES: usize = 4 << 20;

fn check_save_inputs(ctx: &ShapeContext<'_>) -> Result<()> {
    ctx.input_with_rank(0, 0)?;
    ctx.input_with_rank(1, 1)?;
    ctx.input_with_rank(2, 1)?;
    Ok(())
}

fn save_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    check_save_inputs(ctx)?;
    Ok(Vec::new())
}

fn merge_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 1)?;
    ctx.input_with_rank(1, 0)?;
    Ok(Vec::new())
}

/// The shape of a slice follows from its spec; that of a whole tensor is known only to the file.
fn restore_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    check_save_inputs(ctx)?;
    let unknown = vec![PartialShape::unknown(); ctx.num_outputs()];
    let Some(specs) = ctx.value(2) else { return Ok(unknown) };
    let specs = texts(specs, "shape_and_slices")?;
    if specs.len() != ctx.num_outputs() {
        return Ok(unknown);
    }
    let shape = |spec: &String| match spec.as_str() {
        "" => Ok(PartialShape::unknown()),
        spec => {
            let ShapeAndSlice { full, slice } = ShapeAndSlice::parse(spec)?;
            Ok((&slice.within(&full)?.shape()?).into())
        }
    };
    specs.iter().map(shape).collect()
}

/// A path or name that an input holds.
pub(super) fn text(bytes: &Bytes, what: &str) -> Result<String> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Status::invalid_argument(format!("{what} is not valid UTF-8: {}", excerpt(bytes))))
}

pub(super) fn texts(tensor: &Tensor, what: &str) -> Result<Vec<String>> {
    tensor.as_strings()?.iter().map(|bytes| text(bytes, what)).collect()
}

pub(super) fn prefix_in(tensor: &Tensor, what: &str) -> Result<String> {
    ensure!(
        tensor.num_elements() == 1,
        InvalidArgument,
        "Input {what} should have a single element, got {} instead.",
        tensor.num_elements()
    );
    text(tensor.to_string_scalar()?, what)
}

/// The names and slice specs of a save or restore, one of each for `count` tensors; an empty spec means all of it.
fn names_and_specs(ctx: &Context<'_>, count: usize) -> Result<Vec<(String, Option<ShapeAndSlice>)>> {
    for (index, what) in [(1, "tensor_names"), (2, "shape_and_slices")] {
        let input = ctx.input(index)?;
        ensure!(
            input.shape().rank() == 1,
            InvalidArgument,
            "Input {what} should be an 1-D tensor, got {} instead.",
            input.shape()
        );
        ensure!(
            input.num_elements() == count,
            InvalidArgument,
            "Got {} elements in {what} but {count} tensors",
            input.num_elements()
        );
    }
    let names = texts(ctx.input(1)?, "tensor_names")?;
    let specs = texts(ctx.input(2)?, "shape_and_slices")?;
    let parse = |spec: String| if spec.is_empty() { Ok(None) } else { ShapeAndSlice::parse(&spec).map(Some) };
    names.into_iter().zip(specs).map(|(name, spec)| Ok((name, parse(spec)?))).collect()
}

/// `SaveV2`: writes the tensors in the order they are given.
fn save(node: &NodeSpec<'_>) -> Result<KernelBox> {
    const FIRST_TENSOR: usize = 3;
    let count = node.inputs.len() - FIRST_TENSOR;
    Ok(KernelBox::from_fn(move |ctx| {
        let prefix = prefix_in(ctx.input(0)?, "prefix")?;
        ctx.file_access().check_prefix(&prefix)?;
        let mut writer = BundleWriter::create(ctx.file_access(), &prefix)?.with_loops(ctx.loops());
        for (index, (name, spec)) in names_and_specs(ctx, count)?.iter().enumerate() {
            let tensor = ctx.input(FIRST_TENSOR + index)?;
            match spec {
                None => writer.add(name, tensor)?,
                Some(ShapeAndSlice { full, slice }) => writer.add_slice(name, full, slice, tensor)?,
            }
        }
        writer.finish()
    }))
}

/// `RestoreV2`: large checkpoints are read by several threads.
fn restore(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtypes: Vec<DType> = node.attr("dtypes")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let prefix = prefix_in(ctx.input(0)?, "prefix")?;
        ctx.file_access().check_prefix(&prefix)?;
        let wanted = names_and_specs(ctx, dtypes.len())?;
        let reader = Checkpoint::open(ctx.file_access(), &prefix, ctx.loops())?;
        let mut total_bytes = 0usize;
        for ((name, spec), &dtype) in wanted.iter().zip(&dtypes) {
            total_bytes = total_bytes.saturating_add(check_stored(&reader, name, spec.as_ref(), dtype)?);
        }
        let read = |(name, spec): &(String, Option<ShapeAndSlice>)| match spec {
            None => reader.read(name),
            Some(ShapeAndSlice { slice, .. }) => reader.read_slice(name, slice),
        };
        let tensors: Vec<Tensor> = match total_bytes >= PARALLEL_FROM_BYTES {
            true => {
                let mut slots: Vec<Option<Result<Tensor>>> = wanted.iter().map(|_| None).collect();
                ctx.loops().each(wanted.iter().zip(&mut slots), |(wanted, slot)| *slot = Some(read(wanted)));
                slots.into_iter().flatten().collect::<Result<_>>()?
            }
            false => wanted.iter().map(read).collect::<Result<_>>()?,
        };
        for (index, tensor) in tensors.into_iter().enumerate() {
            ctx.set_output(index, tensor);
        }
        Ok(())
    }))
}

/// Checks what is stored against what is wanted; gives the number of bytes.
pub(super) fn check_stored(
    reader: &Checkpoint,
    name: &str,
    spec: Option<&ShapeAndSlice>,
    dtype: DType,
) -> Result<usize> {
    let (stored, shape) = reader.dtype_and_shape(name)?;
    ensure!(
        stored == dtype,
        InvalidArgument,
        "tensor_name = {name}; expected dtype {dtype} does not equal original dtype {stored}"
    );
    if let Some(ShapeAndSlice { full, .. }) = spec {
        ensure!(
            *full == shape,
            InvalidArgument,
            "tensor_name = {name}; shape in shape_and_slice spec {full} does not match the shape stored in \
             checkpoint: {shape}"
        );
    }
    Ok(shape.num_elements().saturating_mul(dtype.size().unwrap_or(16)))
}

/// A checkpoint to restore from, of either format.
pub(super) enum Checkpoint {
    /// The second, by its prefix.
    Bundle(BundleReader),
    /// The first, by its files.
    Slices(SliceFiles),
}

impl Checkpoint {
    /// As TensorFlow does, looks for files of the first format where there is no index of the second.
    fn open(access: &FileAccess, prefix: &str, loops: &Loops) -> Result<Checkpoint> {
        match BundleReader::open(access, prefix) {
            Ok(bundle) => Ok(Checkpoint::Bundle(bundle.with_loops(loops))),
            Err(status) if status.code() == Code::NotFound => Checkpoint::open_slices(access, prefix),
            Err(status) => Err(status),
        }
    }

    /// The first format, in files that match a pattern.
    pub(super) fn open_slices(access: &FileAccess, pattern: &str) -> Result<Checkpoint> {
        let mut files = files_matching(access, pattern);
        files.retain(|path| access.is_file(path));
        ensure!(
            !files.is_empty(),
            NotFound,
            "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {}",
            excerpt(pattern)
        );
        SliceFiles::open(access, &files).map(Checkpoint::Slices)
    }

    fn dtype_and_shape(&self, name: &str) -> Result<(DType, Shape)> {
        match self {
            Checkpoint::Bundle(bundle) => bundle.dtype_and_shape(name),
            Checkpoint::Slices(slices) => slices.dtype_and_shape(name),
        }
    }

    pub(super) fn read(&self, name: &str) -> Result<Tensor> {
        match self {
            Checkpoint::Bundle(bundle) => bundle.read(name),
            Checkpoint::Slices(slices) => slices.read(name),
        }
    }

    pub(super) fn read_slice(&self, name: &str, slice: &TensorSlice) -> Result<Tensor> {
        match self {
            Checkpoint::Bundle(bundle) => bundle.read_slice(name, slice),
            Checkpoint::Slices(slices) => slices.read_slice(name, slice),
        }
    }
}

/// `MergeV2Checkpoints`: the parts of a sharded save become one checkpoint; their directories go if they are empty.
fn merge(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let delete_old_dirs: bool = node.attr("delete_old_dirs")?;
    let allow_missing: bool = node.attr("allow_missing_files")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let parts = ctx.input(0)?;
        ensure!(
            parts.shape().rank() == 1,
            InvalidArgument,
            "Input checkpoint_prefixes should be an 1-D tensor, got {} instead.",
            parts.shape()
        );
        let parts = texts(parts, "checkpoint_prefixes")?;
        let destination = prefix_in(ctx.input(1)?, "destination_prefix")?;
        let prefixes: Vec<&str> = parts.iter().map(String::as_str).collect();
        prefixes
            .iter()
            .chain([&&*destination])
            .try_for_each(|prefix| ctx.file_access().check_prefix(prefix))?;
        bundle::merge(ctx.file_access(), &prefixes, &destination, allow_missing)?;
        if delete_old_dirs {
            let kept = Path::new(&destination).parent();
            for directory in prefixes.iter().map(|prefix| Path::new(prefix).parent()) {
                if let Some(directory) = directory.filter(|_| directory != kept) {
                    // Parts share a directory, so all but the first find it gone; others may use it still.
                    let _ = ctx.file_access().entry(directory).and_then(|directory| directory.remove_dir());
                }
            }
        }
        Ok(())
    }))
}

fn int32_scalar(ctx: &Context<'_>, index: usize, what: &str) -> Result<i32> {
    let input = ctx.input(index)?;
    ensure!(input.is_scalar(), InvalidArgument, "{what} must be a scalar, got shape {}", input.shape());
    input.to_scalar::<i32>()
}

fn sharded(basename: &[u8], suffix: String) -> Tensor {
    Tensor::string([basename, suffix.as_bytes()].concat())
}

fn sharded_filename(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (shard, count) = (int32_scalar(ctx, 1, "shard")?, int32_scalar(ctx, 2, "num_shards")?);
        let filename = sharded(ctx.input(0)?.to_string_scalar()?, format!("-{shard:05}-of-{count:05}"));
        ctx.set_output(0, filename);
        Ok(())
    }))
}

fn sharded_filespec(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let count = int32_scalar(ctx, 1, "num_shards")?;
        let filespec = sharded(ctx.input(0)?.to_string_scalar()?, format!("-?????-of-{count:05}"));
        ctx.set_output(0, filespec);
        Ok(())
    }))
}

#[cfg(test)]
#[path = "checkpoints_tests.rs"]
mod tests;
