//! Checkpoints of TensorFlow's first format: saving to one file, restoring from those that match a pattern.
//!
//! `RestoreV2` reads this format, too, where it finds no other.

use tensorfleet_core::{DType, PartialShape, Result, Tensor, ensure};
use tensorfleet_files::slice_file::SliceFileWriter;
use tensorfleet_files::tensor_slice::{ShapeAndSlice, TensorSlice};

use super::checkpoints::{Checkpoint, check_stored, prefix_in, texts};
use super::files::check_pattern;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Save", "filename: string, tensor_names: string, data: T")
        .attrs("T: list(type) >= 1")
        .stateful()
        .shape(nothing)
        .kernel(|_| save(false))
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("SaveSlices", "filename: string, tensor_names: string, shapes_and_slices: string, data: T")
        .attrs("T: list(type) >= 1")
        .stateful()
        .shape(nothing)
        .kernel(|_| save(true))
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("Restore", "file_pattern: string, tensor_name: string -> tensor: dt")
        .attrs("dt: type; preferred_shard: int = -1")
        .stateful()
        .shape(unknown)
        .kernel(restore)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new(
        "RestoreSlice",
        "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt",
    )
    .attrs("dt: type; preferred_shard: int = -1")
    .stateful()
    .shape(unknown)
    .kernel(restore)
    .cost(Cost::Heavy)
    .waits_for_disk(),
];

fn nothing(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 0)?;
    ctx.input_with_rank(1, 1)?;
    Ok(Vec::new())
}

/// A vector of strings with one for each tensor.
fn one_each(ctx: &Context<'_>, index: usize, what: &str, count: usize) -> Result<Vec<String>> {
    let input = ctx.input(index)?;
    ensure!(
        input.shape().rank() == 1 && input.num_elements() == count,
        InvalidArgument,
        "{what} must be a vector of {count} strings, one for each tensor, got shape {}",
        input.shape()
    );
    texts(input, what)
}

fn save(has_slices: bool) -> Result<KernelBox> {
    let first = if has_slices { 3 } else { 2 };
    Ok(KernelBox::from_fn(move |ctx| {
        let path = prefix_in(ctx.input(0)?, "filename")?;
        ctx.file_access().check(&path)?;
        let count = ctx.num_inputs() - first;
        let names = one_each(ctx, 1, "tensor_names", count)?;
        let specs = match has_slices {
            true => one_each(ctx, 2, "shapes_and_slices", count)?,
            false => vec![String::new(); count],
        };
        let mut writer = SliceFileWriter::default();
        for (index, (name, spec)) in names.iter().zip(&specs).enumerate() {
            let tensor: &Tensor = ctx.input(first + index)?;
            match spec.as_str() {
                "" => writer.add(name, tensor.shape(), &TensorSlice::full(tensor.shape().rank()), tensor)?,
                spec => {
                    let ShapeAndSlice { full, slice } = ShapeAndSlice::parse(spec)?;
                    writer.add(name, &full, &slice, tensor)?;
                }
            }
        }
        writer.finish(ctx.file_access(), &path)
    }))
}

fn restore(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("dt")?;
    let has_slice = node.inputs.len() == 3;
    Ok(KernelBox::from_fn(move |ctx| {
        let pattern = prefix_in(ctx.input(0)?, "file_pattern")?;
        let name = prefix_in(ctx.input(1)?, "tensor_name")?;
        let spec = if has_slice { prefix_in(ctx.input(2)?, "shape_and_slice")? } else { String::new() };
        let spec = if spec.is_empty() { None } else { Some(ShapeAndSlice::parse(&spec)?) };
        check_pattern(ctx.file_access(), &pattern)?;
        let files = Checkpoint::open_slices(ctx.file_access(), &pattern)?;
        check_stored(&files, &name, spec.as_ref(), dtype)?;
        let tensor = match &spec {
            None => files.read(&name)?,
            Some(ShapeAndSlice { slice, .. }) => files.read_slice(&name, slice)?,
        };
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    fn strings(values: &[&str]) -> Tensor {
        Tensor::from_strings(values.iter().map(|value| value.to_string().into()).collect(), &[values.len()])
            .unwrap()
    }

    fn restore(pattern: &str, name: &str, spec: Option<&str>, dtype: DType) -> Result<Tensor> {
        let op = test_op(if spec.is_some() { "RestoreSlice" } else { "Restore" }).attr("dt", dtype);
        let op = op.input(Tensor::from(pattern)).input(Tensor::from(name));
        spec.into_iter().fold(op, |op, spec| op.input(Tensor::from(spec))).run_one()
    }

    #[test]
    fn shards_are_saved_and_restored_by_their_pattern_with_old_and_new_ops() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("model").display().to_string();
        let save = |shard: &str, spec: &str, row: [f32; 2]| {
            let op = test_op("SaveSlices").attr("T", vec![DType::Float, DType::Int32]);
            let op = op.input(Tensor::from(format!("{base}-{shard}-of-00002").as_str()));
            let op = op.input(strings(&["x", &format!("n{shard}")])).input(strings(&[spec, ""]));
            op.input(Tensor::from_slice(&row, &[1, 2]).unwrap()).input(Tensor::scalar(3i32)).run()
        };
        save("00000", "2 2 0,1:-", [1.0, 2.0]).unwrap();
        save("00001", "2 2 1,1:-", [3.0, 4.0]).unwrap();
        let pattern = format!("{base}-?????-of-00002");
        let whole = restore(&pattern, "x", None, DType::Float).unwrap();
        assert_eq!(whole.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        let column = restore(&pattern, "x", Some("2 2 -:1,1"), DType::Float).unwrap();
        assert_eq!(column.as_slice::<f32>().unwrap(), [2.0, 4.0]);
        let new = test_op("RestoreV2").attr("dtypes", vec![DType::Float, DType::Int32]);
        let new = new.input(Tensor::from(pattern.as_str())).input(strings(&["x", "n00001"]));
        let new = new.input(strings(&["", ""])).run().unwrap();
        assert_eq!((&new[0], new[1].to_scalar::<i32>().unwrap()), (&whole, 3));
        for (pattern, name, spec, dtype, code) in [
            (pattern.as_str(), "x", None, DType::Double, Code::InvalidArgument),
            (&pattern, "y", None, DType::Float, Code::NotFound),
            (&pattern, "x", Some("3 2 -:-"), DType::Float, Code::InvalidArgument),
            (&pattern, "x", Some("2 2 0,9:-"), DType::Float, Code::InvalidArgument),
            ("/nowhere/at all", "x", None, DType::Float, Code::NotFound),
        ] {
            assert_eq!(restore(pattern, name, spec, dtype).unwrap_err().code(), code, "{name} {spec:?}");
        }
    }

    #[test]
    fn names_and_tensors_must_be_as_many() {
        let op = test_op("Save").attr("T", vec![DType::Int32]).input(Tensor::from("/nowhere/x"));
        let op = op.input(strings(&["a", "b"])).input(Tensor::scalar(1i32));
        assert_eq!(op.run().unwrap_err().code(), Code::InvalidArgument);
    }
}
