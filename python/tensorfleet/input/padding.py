"""Batches of elements of different sizes."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.framework.type_spec import TensorSpec
from tensorfleet.input import structure


def _shape_tensor(padded, known):
    """A padded shape as a vector, with -1 where the largest element decides."""
    if isinstance(padded, Tensor):
        if padded.shape.rank != 1:
            raise ValueError(f"Padded shape {padded} must be a 1-D tensor of tf.int64 values, but its shape was {padded.shape}.")
        if padded.dtype != dtypes.int64:
            raise TypeError(f"Padded shape {padded} must be a 1-D tensor of tf.int64 values, but its element type was {padded.dtype.name}.")
        return padded
    shape = TensorShape(padded)
    if not shape.is_compatible_with(known) and shape.rank != known.rank:
        raise ValueError(f"The padded shape {shape} is not compatible with the corresponding input component shape {known}.")
    for wide, narrow in zip(shape.as_list(), known.as_list() if known.rank is not None else shape.as_list()):
        if wide is not None and narrow is not None and wide < narrow:
            raise ValueError(f"The padded shape {shape} is not compatible with the corresponding input component shape {known}.")
    return ops.convert_to_tensor([-1 if size is None else size for size in shape.as_list()], dtype=dtypes.int64)


def _known_shape(tensor):
    known = constant_value(tensor)
    if known is None:
        return TensorShape([None] * (tensor.shape.as_list()[0] or 0)) if tensor.shape.is_fully_defined() else TensorShape(None)
    return TensorShape([None if size < 0 else int(size) for size in known])


def _default(dtype):
    if dtype.base_dtype == dtypes.string:
        return ""
    return False if dtype.base_dtype == dtypes.bool else 0


def _value_tensor(value, dtype):
    tensor = ops.convert_to_tensor(value, name="padding_value")
    if tensor.shape.rank != 0:
        raise ValueError(f"Padding value should be a scalar, but is not: {value}")
    if tensor.dtype != dtype:
        raise TypeError(f"Padding value tensor ({tensor}) does not match output type: {dtype}")
    return tensor


def padded_batch(dataset, batch_size, padded_shapes, padding_values, drop_remainder):
    """Several elements as one, padded to a shape."""
    spec = dataset.element_spec
    if not all(isinstance(one, TensorSpec) for one in structure.flatten(spec)):
        raise TypeError("Batching of padded sparse tensors is not currently supported")
    size = ops.convert_to_tensor(batch_size, dtype=dtypes.int64, name="batch_size")
    flat_spec = structure.flatten(spec)
    values = [None] * len(flat_spec) if padding_values is None else structure.flatten_up_to(spec, padding_values)
    shapes = [_shape_tensor(padded, one.shape) for padded, one in zip(structure.flatten_up_to(spec, padded_shapes), flat_spec)]
    tensors = []
    for value, one in zip(values, flat_spec):
        if value is None:
            value = ops.convert_to_tensor(_default(one.dtype), dtype=one.dtype, name="padding_value")
        tensors.append(_value_tensor(value, one.dtype))
    drop = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
    known = constant_value(size) if constant_value(drop) else None
    count = None if known is None else int(known)
    batched = structure.pack(spec, [TensorSpec(TensorShape([count]).concatenate(_known_shape(shape)), one.dtype) for shape, one in zip(shapes, flat_spec)])
    variant = gen.PaddedBatchDatasetV2(dataset._variant_tensor, size, shapes, tensors, drop, output_shapes=structure.flat_shapes(batched))
    return type(dataset)._of(variant, batched, [dataset])
