"""Which values TensorFlow's Python side knows while a graph is built.

The library knows more: it computes whatever constants determine. Functions that choose between a constant and a node must
choose as TensorFlow 1.15 does, or graphs differ; so only the ops that it looks through count here.
"""

from tensorfleet.framework.tensor_shape import TensorShape


def is_known(tensor):
    """Whether TensorFlow's `constant_value` gives the value."""
    op = tensor.op
    kind = op.type
    if kind == "Const":
        return True
    if kind in ("Shape", "Size"):
        return op.inputs[0].shape.is_fully_defined()
    if kind == "Rank":
        return op.inputs[0].shape.rank is not None
    if kind in ("Range", "Cast", "Concat", "ConcatV2", "ConcatOffset", "Pack", "Fill", "Equal", "NotEqual"):
        return all(is_known(item) for item in op.inputs)
    return False


def shape_of(tensor, constant_value):
    """The shape that an integer vector holds as far as TensorFlow's `constant_value_as_shape` knows it; `None` if it looks
    no further than `constant_value` does."""
    op = tensor.op
    kind = op.type
    if kind == "Shape":
        return op.inputs[0].shape
    if kind == "Cast":
        return shape_of(op.inputs[0], constant_value)
    if kind == "Pack":
        dims = []
        for item in op.inputs:
            value = constant_value(item)
            dims.append(None if value is None or value < 0 else int(value))
        return TensorShape(dims)
    if kind == "ConcatV2":
        whole = TensorShape([])
        for item in op.inputs[:-1]:
            part = _part(item, constant_value)
            if part is None:
                return None
            whole = whole.concatenate(part)
        return whole
    if kind == "StridedSlice":
        return _sliced(op, constant_value)
    return None


def _part(tensor, constant_value):
    value = constant_value(tensor)
    if value is not None:
        return TensorShape([None if dim < 0 else int(dim) for dim in value])
    found = shape_of(tensor, constant_value)
    if found is not None:
        return found
    length = tensor.shape._dims[0] if tensor.shape.rank == 1 else None
    return None if length is None else TensorShape([None] * length)


def _sliced(op, constant_value):
    if any(op.get_attr(mask) for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")):
        return None
    parts = [constant_value(item) for item in op.inputs[1:4]]
    if any(part is None or len(part) != 1 for part in parts):
        return None
    begin, end, stride = (int(part[0]) for part in parts)
    if op.get_attr("begin_mask"):
        begin = None
    if op.get_attr("end_mask"):
        end = None
    whole = _part(op.inputs[0], constant_value)
    return None if whole is None or whole.rank is None else TensorShape(whole._dims[begin:end:stride])
