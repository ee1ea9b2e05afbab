"""`tf.TensorArray`: tensors by index, written once each, inside and outside of loops.

The array lives in the runtime. What stands for it is its handle and a flow, a float that orders writes and reads: each write gives
a new object with a new flow.
"""

import contextlib

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape


def _check_arguments(size, dynamic_size, clear_after_read, tensor_array_name, handle, element_shape):
    if handle is not None and tensor_array_name:
        raise ValueError("Cannot construct with both handle and tensor_array_name")
    if handle is not None and not isinstance(handle, Tensor):
        raise TypeError("Handle must be a Tensor")
    if handle is None and size is None:
        raise ValueError("Size must be provided if handle is not provided")
    if handle is None:
        return
    for argument, what in ((size, "size"), (element_shape, "element_shape"), (dynamic_size, "dynamic_size"), (clear_after_read, "clear_after_read")):
        if argument is not None:
            raise ValueError(f"Cannot provide both a handle and {what} at the same time")


@export("TensorArray")
class TensorArray:
    """Tensors by index."""

    def __init__(
        self,
        dtype,
        size=None,
        dynamic_size=None,
        clear_after_read=None,
        tensor_array_name=None,
        handle=None,
        flow=None,
        infer_shape=True,
        element_shape=None,
        colocate_with_first_write_call=True,
        name=None,
    ):
        _check_arguments(size, dynamic_size, clear_after_read, tensor_array_name, handle, element_shape)
        clear_after_read = True if clear_after_read is None else clear_after_read
        self._dynamic_size = bool(dynamic_size)
        self._size = size
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._colocate_with_first_write_call = colocate_with_first_write_call
        #: The first value that was written; all objects of one array share the list.
        self._colocate_with = [] if colocate_with_first_write_call else None
        self._infer_shape = infer_shape or element_shape is not None
        #: The shape of the elements, once it is known; shared as well.
        self._element_shape = [] if element_shape is None else [TensorShape(element_shape)]
        with ops.name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                self._handle = handle
                if flow is None:
                    raise ValueError("flow must not be None if handle is not None.")
                self._flow = flow
                return
            # The array is where the first value is written, so it asks for no device.
            with ops.device(None) if colocate_with_first_write_call else contextlib.nullcontext():
                self._handle, self._flow = gen.TensorArrayV3(
                    size,
                    dtype=self._dtype,
                    element_shape=TensorShape(element_shape),
                    identical_element_shapes=self._infer_shape,
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clear_after_read,
                    tensor_array_name=tensor_array_name or "",
                    name=scope,
                )

    @property
    def flow(self):
        return self._flow

    @property
    def dtype(self):
        return self._dtype

    @property
    def handle(self):
        return self._handle

    @property
    def dynamic_size(self):
        return self._dynamic_size

    @property
    def element_shape(self):
        return self._element_shape[0] if self._element_shape else TensorShape(None)

    def _merge_element_shape(self, shape):
        if not self._element_shape:
            if shape.rank is not None:
                self._element_shape.append(shape)
            return
        known = self._element_shape[0]
        if not shape.is_compatible_with(known):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected {known} ")
        self._element_shape[0] = known.merge_with(shape)

    @contextlib.contextmanager
    def _maybe_colocate_with(self, value):
        if not self._colocate_with_first_write_call:
            yield
            return
        if not self._colocate_with:
            self._colocate_with.append(value)
        with ops.colocate_with(self._colocate_with[0]):
            yield

    def identity(self):
        """The same array, as another node gives it."""
        return build_ta_with_new_flow(self, gen.Identity(self._flow))

    def grad(self, source, flow=None, name=None):
        """The array of the gradients of this one."""
        flow = self._flow if flow is None else flow
        with ops.name_scope(name, "TensorArrayGrad", [self._handle]):
            with ops.colocate_with(self._handle):
                handle, _ = gen.TensorArrayGradV3(self._handle, flow, source=source, name=name)
                with ops.control_dependencies([handle]):
                    flow = gen.Identity(flow, name="gradient_flow")
                made = TensorArray(
                    dtype=self._dtype, handle=handle, flow=flow, infer_shape=self._infer_shape, colocate_with_first_write_call=False
                )
                made._element_shape = self._element_shape
                return made

    def read(self, index, name=None):
        """The element at `index`."""
        value = gen.TensorArrayReadV3(self._handle, index, self._flow, dtype=self._dtype, name=name)
        if self._element_shape:
            value.set_shape(self._element_shape[0].dims)
        return value

    def write(self, index, value, name=None):
        """The array with `value` at `index`."""
        with ops.name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _check_dtype(value, self._dtype)
            if self._infer_shape:
                self._merge_element_shape(value.shape)
            with self._maybe_colocate_with(value):
                flow = gen.TensorArrayWriteV3(self._handle, index, value, self._flow, name=name)
            return build_ta_with_new_flow(self, flow)

    def stack(self, name=None):
        """All elements along a new first dimension."""
        from tensorfleet.ops import math

        with ops.colocate_with(self._handle):
            with ops.name_scope(name, "TensorArrayStack", [self._handle]):
                return self.gather(math.range(0, self.size()), name=name)

    def gather(self, indices, name=None):
        """Some elements along a new first dimension."""
        known = self._element_shape[0] if self._element_shape else TensorShape(None)
        value = gen.TensorArrayGatherV3(self._handle, indices, self._flow, dtype=self._dtype, element_shape=known, name=name)
        if self._element_shape and known.dims is not None:
            value.set_shape([None] + known.dims)
        return value

    def concat(self, name=None):
        """All elements along their first dimension."""
        rest = None
        if self._element_shape and self._element_shape[0].dims is not None:
            rest = TensorShape(self._element_shape[0].dims[1:])
        value, _ = gen.TensorArrayConcatV3(self._handle, self._flow, dtype=self._dtype, element_shape_except0=TensorShape(None) if rest is None else rest, name=name)
        if rest is not None:
            value.set_shape([None] + rest.dims)
        return value

    def unstack(self, value, name=None):
        """The array whose elements are those of `value` along its first dimension."""
        from tensorfleet.ops import array, math

        with ops.name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            count = array.shape(value)[0]
            return self.scatter(indices=math.range(0, count), value=value, name=name)

    def scatter(self, indices, value, name=None):
        """The array with the elements of `value` at `indices`."""
        with ops.name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _check_dtype(value, self._dtype)
            if self._infer_shape:
                self._merge_element_shape(value.shape[1:])
            with self._maybe_colocate_with(value):
                flow = gen.TensorArrayScatterV3(self._handle, indices, value, self._flow, name=name)
            return build_ta_with_new_flow(self, flow)

    def split(self, value, lengths, name=None):
        """The array whose elements are parts of `value`, with these lengths."""
        from tensorfleet.ops import math

        with ops.name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = ops.convert_to_tensor(value, dtype=self._dtype, name="value")
            with self._maybe_colocate_with(value):
                lengths = math.cast(lengths, dtypes.int64)
                if self._infer_shape:
                    known = constant_value(lengths)
                    if value.shape.dims is not None and known is not None and known.max() == known.min():
                        self._merge_element_shape(TensorShape([int(known[0])]).concatenate(value.shape[1:]))
                flow = gen.TensorArraySplitV3(self._handle, value, lengths, self._flow, name=name)
            return build_ta_with_new_flow(self, flow)

    def size(self, name=None):
        """The number of elements."""
        return gen.TensorArraySizeV3(self._handle, self._flow, name=name)

    def close(self, name=None):
        """Frees the array."""
        return gen.TensorArrayCloseV3(self._handle, name=name)


def _check_dtype(value, dtype):
    if value.dtype.base_dtype != dtype:
        raise TypeError(f"TensorArray dtype is {dtype.name} but Op is trying to write dtype {value.dtype.name}")


def build_ta_with_new_flow(old_ta, flow):
    """The array at another point of its writes."""
    made = TensorArray(
        dtype=old_ta._dtype,
        handle=old_ta._handle,
        flow=flow,
        infer_shape=old_ta._infer_shape,
        colocate_with_first_write_call=old_ta._colocate_with_first_write_call,
    )
    made._colocate_with = old_ta._colocate_with
    made._element_shape = old_ta._element_shape
    made._dynamic_size = old_ta._dynamic_size
    made._size = old_ta._size
    return made
