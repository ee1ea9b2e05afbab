//! Tensors in strings and variants: `SerializeTensor` and `ParseTensor`, and the same for sparse tensors, which are three tensors.

use bytes::Bytes;
use tensorfleet_core::{
    Buffer, DType, PartialShape, Result, Shape, Status, Tensor, Variant, VariantExtent, VariantObject, bail,
    ensure,
};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::TensorProto;

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SerializeTensor", "tensor: T -> serialized: string")
        .attrs("T: type")
        .work(Work::Inputs)
        .not_differentiable()
        .shape(scalars)
        .kernel(serialize_tensor),
    Op::new("ParseTensor", "serialized: string -> output: out_type")
        .attrs("out_type: type")
        .work(Work::Inputs)
        .not_differentiable()
        .shape(unknown)
        .kernel(parse_tensor),
    Op::new(
        "SerializeSparse",
        "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type",
    )
    .attrs("T: type; out_type: {string, variant} = string")
    .work(Work::Inputs)
    .not_differentiable()
    .shape(|_| Ok(vec![PartialShape::vector(Some(3))]))
    .kernel(serialize_sparse),
    Op::new(
        "SerializeManySparse",
        "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type",
    )
    .attrs("T: type; out_type: {string, variant} = string")
    .work(Work::Inputs)
    .not_differentiable()
    .shape(|_| Ok(vec![PartialShape::new([None, Some(3)])]))
    .kernel(serialize_many),
    Op::new(
        "DeserializeSparse",
        "serialized_sparse: Tserialized -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    )
    .attrs("dtype: type; Tserialized: {string, variant} = string")
    .work(Work::Inputs)
    .not_differentiable()
    .shape(sparse_shapes)
    .kernel(deserialize),
    Op::new(
        "DeserializeManySparse",
        "serialized_sparse: string -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    )
    .attrs("dtype: type")
    .work(Work::Inputs)
    .not_differentiable()
    .shape(sparse_shapes)
    .kernel(deserialize),
];

fn sparse_shapes(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::new([None, None]), PartialShape::vector(None), PartialShape::vector(None)])
}

fn serialize_tensor(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let serialized = to_bytes(ctx.input(0)?);
        ctx.set_output(0, Tensor::from_strings(vec![serialized], &[])?);
        Ok(())
    }))
}

fn parse_tensor(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let tensor = from_bytes(ctx.input(0)?.to_string_scalar()?)?;
        ensure!(
            tensor.dtype() == dtype,
            InvalidArgument,
            "Type mismatch between parsed tensor ({}) and dtype ({dtype})",
            tensor.dtype()
        );
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn to_bytes(tensor: &Tensor) -> Bytes {
    tensor.to_proto().encode_to_vec().into()
}

fn from_bytes(bytes: &[u8]) -> Result<Tensor> {
    let parsed = TensorProto::decode(bytes).map_err(|error| {
        Status::invalid_argument(format!("Could not parse `serialized` as TensorProto: {error}"))
    })?;
    Tensor::from_proto(&parsed)
}

/// A tensor in a variant.
struct Held {
    tensor: Tensor,
    extent: VariantExtent,
}

impl VariantObject for Held {
    fn type_name(&self) -> &str {
        "tensorflow::Tensor"
    }

    fn extent(&self) -> VariantExtent {
        self.extent
    }
}

/// One part of a sparse tensor, as it is kept.
fn held(part: Tensor) -> Result<Variant> {
    let extent = VariantExtent::around([&part])?;
    Ok(Variant::from_object(Held { tensor: part, extent }))
}

/// Indices, values and shape.
struct Sparse {
    indices: Vec<i64>,
    rank: usize,
    values: Tensor,
    shape: Vec<i64>,
}

impl Sparse {
    fn of(indices: &Tensor, values: Tensor, shape: &Tensor) -> Result<Sparse> {
        let shape = shape.as_slice::<i64>()?.to_vec();
        let (rank, count) = (shape.len(), values.shape().num_elements());
        ensure!(
            indices.shape()[..] == [count, rank] && values.shape().rank() == 1,
            InvalidArgument,
            "a sparse tensor of rank {rank} with {count} values has indices of shape {}",
            indices.shape()
        );
        Ok(Sparse { indices: indices.as_slice::<i64>()?.to_vec(), rank, values, shape })
    }

    fn in_step(ctx: &Context<'_>) -> Result<Sparse> {
        Sparse::of(ctx.input(0)?, ctx.input(1)?.clone(), ctx.input(2)?)
    }

    fn parts(self) -> Result<[Tensor; 3]> {
        let count = self.values.shape().num_elements();
        let indices = Tensor::from_slice(&self.indices, &[count, self.rank])?;
        let shape = Tensor::from_slice(&self.shape, &[self.rank])?;
        Ok([indices, self.values, shape])
    }
}

/// Rows of three parts each, as strings or variants.
fn serialized(parts: Vec<Tensor>, dims: &[usize], as_variants: bool) -> Result<Tensor> {
    match as_variants {
        true => Tensor::from_variants(parts.into_iter().map(held).collect::<Result<_>>()?, dims),
        false => Tensor::from_strings(parts.iter().map(to_bytes).collect(), dims),
    }
}

fn serialize_sparse(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let as_variants = node.output_dtype(0)? == DType::Variant;
    Ok(KernelBox::from_fn(move |ctx| {
        let parts = Sparse::in_step(ctx)?.parts()?;
        ctx.set_output(0, serialized(parts.into(), &[3], as_variants)?);
        Ok(())
    }))
}

/// The rows along the first dimension, each as a sparse tensor of its own.
fn serialize_many(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let as_variants = node.output_dtype(0)? == DType::Variant;
    Ok(KernelBox::from_fn(move |ctx| {
        let all = Sparse::in_step(ctx)?;
        ensure!(
            all.rank > 1,
            InvalidArgument,
            "Rank of input SparseTensor should be > 1, but saw rank: {}",
            all.rank
        );
        let rows = usize::try_from(all.shape[0])
            .map_err(|_| Status::invalid_argument(format!("a sparse tensor has {} rows", all.shape[0])))?;
        let mut positions: Vec<Vec<usize>> = Vec::new();
        positions.try_reserve(rows).map_err(|_| Status::resource_exhausted(format!("{rows} rows")))?;
        positions.resize(rows, Vec::new());
        for (position, index) in all.indices.chunks_exact(all.rank).enumerate() {
            let row = usize::try_from(index[0]).ok().and_then(|row| positions.get_mut(row));
            let row =
                row.ok_or_else(|| Status::invalid_argument(format!("index {} of {rows} rows", index[0])))?;
            row.push(position);
        }
        let mut parts = Vec::with_capacity(rows * 3);
        for positions in positions {
            let indices =
                positions.iter().flat_map(|&at| &all.indices[at * all.rank + 1..(at + 1) * all.rank]);
            let row = Sparse {
                indices: indices.copied().collect(),
                rank: all.rank - 1,
                values: picked(&all.values, &positions)?,
                shape: all.shape[1..].to_vec(),
            };
            parts.extend(row.parts()?);
        }
        ctx.set_output(0, serialized(parts, &[rows, 3], as_variants)?);
        Ok(())
    }))
}

/// The elements of a vector at these positions.
fn picked(values: &Tensor, positions: &[usize]) -> Result<Tensor> {
    if values.dtype() == DType::String {
        let all = values.as_strings()?;
        return Tensor::from_strings(
            positions.iter().map(|&at| all[at].clone()).collect(),
            &[positions.len()],
        );
    }
    let size = values.dtype().size().ok_or_else(|| Status::unimplemented("sparse tensors of such values"))?;
    let bytes = values.as_bytes()?;
    let mut buffer = Buffer::new(size * positions.len())?;
    if let Some(out) = buffer.as_bytes_mut() {
        for (to, &at) in out.chunks_exact_mut(size).zip(positions) {
            to.copy_from_slice(&bytes[at * size..(at + 1) * size]);
        }
    }
    Tensor::from_buffer(values.dtype(), Shape::new(&[positions.len()])?, buffer)
}

/// Vectors of one dtype, one after the other.
fn joined(parts: &[Tensor], dtype: DType) -> Result<Tensor> {
    let count = parts.iter().map(|part| part.shape().num_elements()).sum();
    if dtype == DType::String {
        let mut all = Vec::with_capacity(count);
        for part in parts {
            all.extend(part.as_strings()?.iter().cloned());
        }
        return Tensor::from_strings(all, &[count]);
    }
    let size = dtype.size().ok_or_else(|| Status::unimplemented("sparse tensors of such values"))?;
    let mut buffer = Buffer::new(size * count)?;
    if let Some(mut rest) = buffer.as_bytes_mut() {
        for part in parts {
            let bytes = part.as_bytes()?;
            let (to, after) = rest.split_at_mut(bytes.len());
            to.copy_from_slice(bytes);
            rest = after;
        }
    }
    Tensor::from_buffer(dtype, Shape::new(&[count])?, buffer)
}

/// The tensors in an input of strings or variants.
fn parts_of(input: &Tensor) -> Result<Vec<Tensor>> {
    if input.dtype() == DType::String {
        return input.as_strings()?.iter().map(|bytes| from_bytes(bytes)).collect();
    }
    let part = |variant: &Variant| {
        if let Some(held) = variant.object::<Held>() {
            return Ok(held.tensor.clone());
        }
        match variant.data().and_then(|data| data.tensors.first()) {
            Some(proto) => Tensor::from_proto(proto),
            None => {
                bail!(InvalidArgument, "a variant of {} is no part of a sparse tensor", variant.type_name())
            }
        }
    };
    input.as_variants()?.iter().map(part).collect()
}

/// Sparse tensors as one, with the dimensions before the three parts in front of their own.
fn deserialize(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(1)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let Some((3, outer)) = input.shape().split_last().map(|(&last, outer)| (last, outer.to_vec())) else {
            bail!(
                InvalidArgument,
                "Serialized sparse should have 3 as the last dimension but has {}",
                input.shape().last().copied().unwrap_or_default()
            )
        };
        let mut all = Vec::new();
        for three in parts_of(input)?.chunks_exact(3) {
            ensure!(
                three[1].dtype() == dtype,
                InvalidArgument,
                "Requested SparseTensor of type {dtype} but SparseTensor[{}].values.dtype() == {}",
                all.len(),
                three[1].dtype()
            );
            all.push(Sparse::of(&three[0], three[1].clone(), &three[2])?);
        }
        let joined = together(all, &outer, dtype)?;
        for (slot, part) in joined.parts()?.into_iter().enumerate() {
            ctx.set_output(slot, part);
        }
        Ok(())
    }))
}

fn together(all: Vec<Sparse>, outer: &[usize], dtype: DType) -> Result<Sparse> {
    let Some(first) = all.first() else { bail!(InvalidArgument, "there is no sparse tensor to join") };
    let (rank, mut largest) = (first.rank, first.shape.clone());
    let mut indices = Vec::new();
    for (number, sparse) in all.iter().enumerate() {
        ensure!(
            sparse.rank == rank,
            InvalidArgument,
            "Inconsistent shape across SparseTensors: rank prior to SparseTensor[{number}] was: {rank} but rank of \
             SparseTensor[{number}] is: {}",
            sparse.rank
        );
        largest.iter_mut().zip(&sparse.shape).for_each(|(largest, &size)| *largest = (*largest).max(size));
        let mut place = Vec::with_capacity(outer.len());
        let mut rest = number;
        for &size in outer.iter().rev() {
            place.push((rest % size) as i64);
            rest /= size;
        }
        place.reverse();
        for index in 0..sparse.values.shape().num_elements() {
            indices.extend_from_slice(&place);
            indices.extend_from_slice(&sparse.indices[index * rank..(index + 1) * rank]);
        }
    }
    let shape = outer.iter().map(|&size| size as i64).chain(largest).collect();
    let values: Vec<Tensor> = all.into_iter().map(|sparse| sparse.values).collect();
    Ok(Sparse { indices, rank: rank + outer.len(), values: joined(&values, dtype)?, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(indices: &[i64], values: &[f32], shape: &[i64]) -> Sparse {
        let values = Tensor::from_slice(values, &[values.len()]).unwrap();
        Sparse { indices: indices.to_vec(), rank: shape.len(), values, shape: shape.to_vec() }
    }

    #[test]
    fn sparse_tensors_are_joined_along_a_new_dimension() {
        let all = vec![sparse(&[1], &[2.0], &[3]), sparse(&[0, 3], &[4.0, 5.0], &[5])];
        let joined = together(all, &[2], DType::Float).unwrap();
        assert_eq!(joined.indices, [0, 1, 1, 0, 1, 3]);
        assert_eq!(joined.shape, [2, 5]);
        assert_eq!(joined.values.as_slice::<f32>().unwrap(), [2.0, 4.0, 5.0]);
    }

    #[test]
    fn parts_travel_in_variants_and_strings() {
        for as_variants in [true, false] {
            let parts = sparse(&[1, 2], &[2.0], &[3, 4]).parts().unwrap();
            let kept = serialized(parts.to_vec(), &[3], as_variants).unwrap();
            assert_eq!(parts_of(&kept).unwrap(), parts);
        }
    }
}
