"""Accumulators: gradients are summed until enough of them are there."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape


@export("ConditionalAccumulatorBase")
class ConditionalAccumulatorBase:
    """What both kinds have."""

    def __init__(self, dtype, shape, accumulator_ref):
        self._dtype = dtype
        self._shape = TensorShape(shape) if shape is not None else TensorShape(None)
        self._accumulator_ref = accumulator_ref
        self._name = self._accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self):
        return self._accumulator_ref

    @property
    def name(self):
        return self._name

    @property
    def dtype(self):
        return self._dtype

    @property
    def _is_resource(self):
        return self._accumulator_ref.dtype == dtypes.resource

    def num_accumulated(self, name=None):
        """The number of gradients since the last one was taken."""
        op = gen.ResourceAccumulatorNumAccumulated if self._is_resource else gen.AccumulatorNumAccumulated
        return op(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step, name=None):
        """Drops gradients of steps before this one from now on."""
        op = gen.ResourceAccumulatorSetGlobalStep if self._is_resource else gen.AccumulatorSetGlobalStep
        return op(self._accumulator_ref, _as_int64(ops.convert_to_tensor(new_global_step)), name=name)


def _as_int64(value):
    from tensorfleet.ops import math

    return math.cast(value, dtypes.int64)


@export("ConditionalAccumulator")
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates dense gradients."""

    def __init__(self, dtype, shape=None, shared_name=None, name="conditional_accumulator", reduction_type="MEAN"):
        ref = gen.ResourceConditionalAccumulator(
            dtype=dtype, shape=TensorShape(shape), shared_name=shared_name or "", name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad, local_step=0, name=None):
        """Adds a gradient, unless its step is too old."""
        grad = ops.convert_to_tensor(grad, self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        local_step = _as_int64(ops.convert_to_tensor(local_step))
        return gen.ResourceAccumulatorApplyGradient(self._accumulator_ref, local_step, grad, name=name)

    def take_grad(self, num_required, name=None):
        """The mean or sum of the gradients, once as many are there; the accumulator begins anew."""
        out = gen.ResourceAccumulatorTakeGradient(self._accumulator_ref, num_required, dtype=self._dtype, name=name)
        out.set_shape(self._shape)
        return out


@export("SparseConditionalAccumulator", "sparse.SparseConditionalAccumulator")
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates gradients of some rows."""

    def __init__(self, dtype, shape=None, shared_name=None, name="sparse_conditional_accumulator", reduction_type="MEAN"):
        ref = gen.SparseConditionalAccumulator(
            dtype=dtype, shape=TensorShape(shape), shared_name=shared_name or "", name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, ref)

    def apply_indexed_slices_grad(self, grad, local_step=0, name=None):
        """Adds `IndexedSlices`."""
        return self.apply_grad(
            grad_indices=grad.indices, grad_values=grad.values, grad_shape=grad.dense_shape, local_step=local_step, name=name
        )

    def apply_grad(self, grad_indices, grad_values, grad_shape=None, local_step=0, name=None):
        """Adds a gradient, unless its step is too old."""
        local_step = _as_int64(ops.convert_to_tensor(local_step))
        return gen.SparseAccumulatorApplyGradient(
            self._accumulator_ref,
            local_step,
            _as_int64(grad_indices),
            grad_values,
            _as_int64([] if grad_shape is None else grad_shape),
            has_known_shape=grad_shape is not None,
            name=name,
        )

    def take_grad(self, num_required, name=None):
        """Indices, values and shape of the mean or sum of the gradients, once as many are there."""
        return gen.SparseAccumulatorTakeGradient(self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required, name=None):
        """The same as `IndexedSlices`."""
        taken = self.take_grad(num_required, name)
        return IndexedSlices(indices=taken.indices, values=taken.values, dense_shape=taken.shape)

    def num_accumulated(self, name=None):
        """The number of gradients since the last one was taken."""
        return gen.AccumulatorNumAccumulated(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")
