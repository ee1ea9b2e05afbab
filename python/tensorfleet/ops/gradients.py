"""`tf.gradients`: the library's gradients, by tensors and variables."""

import enum

from tensorfleet.framework import ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.variables import PartitionedVariable, Variable


@export("AggregationMethod")
class AggregationMethod:
    """How gradients of several paths are added up; the library has one way, in which all of these end."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


@export("UnconnectedGradients")
class UnconnectedGradients(enum.Enum):
    """What the gradient is where `ys` do not depend on an `x`."""

    NONE = "none"
    ZERO = "zero"


def _listed(value):
    if isinstance(value, (list, tuple)):
        return list(value)
    return list(value) if isinstance(value, PartitionedVariable) else [value]


def _source(x):
    """The output that gradients are taken of: through a variable's reference or handle go all its reads."""
    if isinstance(x, Variable):
        return x._ref()
    if isinstance(x, IndexedSlices):
        return x.values
    return ops.convert_to_tensor(x)


def _check_real(tensors, grads):
    for tensor, grad in zip(tensors, grads):
        dtype = tensor.dtype.base_dtype
        if grad is None and dtype.is_complex:
            raise TypeError(f"Gradients of complex tensors must set grad_ys (y.dtype = {dtype!r})")
        if grad is None and not dtype.is_floating:
            import logging

            logging.getLogger("tensorflow").debug("the gradient of %s, which is %s, is nothing", tensor.name, dtype.name)


@export("gradients")
def gradients(
    ys,
    xs,
    grad_ys=None,
    name="gradients",
    colocate_gradients_with_ops=False,
    gate_gradients=False,
    aggregation_method=None,
    stop_gradients=None,
    unconnected_gradients=UnconnectedGradients.NONE,
):
    """The gradient of the sum of `ys` with respect to each of `xs`; `None` where no `y` depends on it."""
    gate = "op" if gate_gradients is True else "none"
    return compute(ys, xs, grad_ys, name, colocate_gradients_with_ops, gate, stop_gradients, unconnected_gradients)


def compute(ys, xs, grad_ys=None, name="gradients", colocate=False, gate="none", stop_gradients=None, unconnected=UnconnectedGradients.NONE):
    try:
        unconnected = UnconnectedGradients(unconnected)
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {unconnected!r}") from None
    ys, xs = _listed(ys), _listed(xs)
    stops = [] if stop_gradients is None else _listed(stop_gradients)
    grads = [None] * len(ys) if grad_ys is None else _listed(grad_ys)
    if len(grads) != len(ys):
        raise ValueError("Passed %d grad_ys for %d ys" % (len(grads), len(ys)))
    graph = next((item.graph for item in ys + xs if isinstance(item, (Tensor, Variable))), None) or ops.get_default_graph()
    graph._check_not_finalized()
    with graph.as_default():
        sources = [_source(x) for x in xs]
        ys = ops.convert_n_to_tensor_or_indexed_slices(ys, name="y")
        ys = [y.values if isinstance(y, IndexedSlices) else y for y in ys]
        for tensor in ys + sources:
            if tensor.graph is not graph:
                raise ValueError(f"{tensor} is not from the passed-in graph.")
        grads = [None if grad is None else ops.convert_to_tensor(grad, dtype=y.dtype.base_dtype, name=f"grad_ys_{index}") for index, (grad, y) in enumerate(zip(grads, ys))]
        _check_real(ys, grads)
        from tensorfleet.ops import custom_gradients

        found = graph._native.gradients(
            [y._id for y in ys],
            [source._id for source in sources],
            [None if grad is None else grad._id for grad in grads],
            [_source(stop)._id for stop in stops] + sorted(graph.__dict__.get("_without_back_prop", ())),
            bool(colocate),
            gate,
            name or "gradients",
            **custom_gradients.defined(graph),
        )
        return [_result(graph, grad, x, source, unconnected) for grad, x, source in zip(found, xs, sources)]


def _result(graph, grad, x, source, unconnected):
    if grad is None:
        if unconnected is UnconnectedGradients.NONE:
            return None
        from tensorfleet.ops import constants

        return constants.zeros_like(x)
    tensors = [graph._tensor(number) for number in grad]
    if len(tensors) == 1:
        return tensors[0]
    values, indices, dense_shape = tensors
    return IndexedSlices(values, indices, dense_shape)


@export("hessians")
def hessians(ys, xs, name="hessians", colocate_gradients_with_ops=False, gate_gradients=False, aggregation_method=None):
    """The matrices of second derivatives of the sum of `ys` with respect to each of `xs`."""
    from tensorfleet.ops import array, control_flow, tensor_array

    xs = _listed(xs)
    found = []
    for index, gradient in enumerate(gradients(ys, xs, colocate_gradients_with_ops=colocate_gradients_with_ops, gate_gradients=gate_gradients)):
        x = xs[index]
        shape = array.shape(x)
        flat = array.reshape(gradient, [-1])
        count = array.size(x)
        rows = tensor_array.TensorArray(x.dtype.base_dtype, count)

        def body(row, rows, flat=flat, x=x):
            return row + 1, rows.write(row, gradients(flat[row], x)[0])

        _, rows = control_flow.while_loop(lambda row, _: row < count, body, [0, rows])
        found.append(array.reshape(rows.stack(), array.concat([shape, shape], 0)))
    return found
