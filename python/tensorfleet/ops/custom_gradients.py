"""Gradients that programs define: `tf.RegisterGradient`, `tf.custom_gradient`.

The library asks for them while it differentiates; the functions build with the graph as everything else does.
"""

import functools
import inspect
import itertools

from tensorfleet.framework import ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.export import export

#: Op, or a name that nodes give as `_gradient_op_type` -> function, or `None` for an op that has no gradient.
_REGISTERED = {}
_numbers = itertools.count()


@export("RegisterGradient")
class RegisterGradient:
    """A decorator for the gradient of an op: a function of the operation and of the gradients that arrive at its outputs."""

    def __init__(self, op_type):
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f):
        _register(self._op_type, f)
        return f


def _register(op_type, function):
    if op_type in _REGISTERED:
        raise KeyError(f"Registering two gradient with name '{op_type}'!")
    _REGISTERED[op_type] = function


@export("NotDifferentiable", "NoGradient", "no_gradient")
def NotDifferentiable(op_type):
    """Says that an op has no gradient: nothing flows back through it."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _register(op_type, None)


NoGradient = NotDifferentiable


def defined(graph):
    """What the library is given: the ops that Python defines the gradients of, and a function that builds one."""
    if not _REGISTERED:
        return {}
    return {"defined": (set(_REGISTERED), functools.partial(_build, graph))}


def _build(graph, op_type, node, arriving):
    op = graph._operation(node)
    function = _REGISTERED[op_type]
    if function is None:
        return [None] * len(op.inputs)
    grads = [_arrived(graph, output, numbers) for output, numbers in zip(op.outputs, arriving)]
    built = function(op, *grads)
    built = list(built) if isinstance(built, (list, tuple)) else [built]
    if len(built) != len(op.inputs):
        raise ValueError(f"Num gradients {len(built)} generated for op {op.node_def} do not match num inputs {len(op.inputs)}")
    return [_numbered(grad, source) for grad, source in zip(built, op.inputs)]


def _arrived(graph, output, numbers):
    """A gradient that arrives, as Python's functions take it: zeros where nothing depends on an output."""
    if numbers is None:
        if not (output.dtype.is_floating or output.dtype.is_complex):
            return None
        from tensorfleet.ops import constants

        return constants.zeros_like(output)
    tensors = [graph._tensor(number) for number in numbers]
    return tensors[0] if len(tensors) == 1 else IndexedSlices(*tensors)


def _numbered(grad, source):
    if grad is None:
        return None
    if not isinstance(grad, IndexedSlices):
        return [ops.convert_to_tensor(grad)._id]
    shape = grad.dense_shape
    if shape is None:
        from tensorfleet.ops import array

        shape = array.shape(source)
    return [grad.values._id, grad.indices._id, shape._id]


def _variables_read(graph, start, arguments):
    """The trainable resource variables that the nodes from number `start` on use, except those that were given."""
    given = {tensor.op._id for tensor in arguments}
    found = {}
    for number in range(start, len(graph._native)):
        for source in graph._operation(number).inputs:
            variable = graph._variable_objects.get(source._id)
            if variable is not None and variable._is_resource and variable.trainable and source.op._id not in given:
                found[source._id] = variable
    return list(found.values())


def _takes_variables(function):
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.name == "variables" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


@export("custom_gradient")
def custom_gradient(f):
    """A decorator for a function that gives its result and a function for the gradient: `return y, grad`."""

    @functools.wraps(f)
    def decorated(*args, **kwargs):
        if kwargs:
            raise ValueError("The custom_gradient decorator currently supports keywords arguments only when eager execution is enabled.")
        return _with_gradient(f, args)

    return decorated


def _with_gradient(f, args):
    from tensorfleet.framework import gen
    from tensorfleet.platform import nest

    name = f"CustomGradient-{next(_numbers)}"
    args = [ops.convert_to_tensor(value) for value in args]
    graph = ops.get_default_graph()
    start = len(graph._native)
    result, grad_fn = f(*args)
    variables = _variables_read(graph, start, args)
    if variables and not _takes_variables(grad_fn):
        raise TypeError("If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword argument 'variables'.")
    outputs = nest.flatten(result)

    def gradient(_, *arriving):
        arriving = arriving[: len(outputs)]
        if variables:
            inputs, of_variables = grad_fn(*arriving, variables=variables)
            if len(of_variables) != len(variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        else:
            inputs, of_variables = grad_fn(*arriving), []
        # The outputs are inputs of the node, too, so that they are computed; nothing flows back to them.
        return [None] * len(outputs) + nest.flatten(inputs) + list(of_variables)

    _register(name, gradient)
    with graph.gradient_override_map({"IdentityN": name}):
        together = gen.IdentityN([ops.convert_to_tensor(value) for value in outputs + args + variables])
    return nest.pack_sequence_as(result, together[: len(outputs)])


@export("grad_pass_through")
def grad_pass_through(f):
    """`f` with the gradient of the identity."""

    @custom_gradient
    def passing(*args):
        def grad(*arriving, variables=None):
            return arriving if variables is None else (arriving, [None] * len(variables))

        return f(*args), grad

    return functools.wraps(f)(lambda *args, **kwargs: passing(*args, **kwargs))


@export("recompute_grad")
def recompute_grad(f):
    """`f`, whose inner values are computed again for the gradient instead of kept."""

    @custom_gradient
    def recomputing(*args):
        result = f(*args)

        def grad(*arriving, variables=None):
            from tensorfleet.ops import gradients
            from tensorfleet.platform import nest

            kept = list(variables or ())
            with ops.control_dependencies([grad for grad in arriving if grad is not None]):
                again = nest.flatten(f(*args))
            found = gradients.gradients(again, list(args) + kept, grad_ys=list(arriving))
            return found[: len(args)] if variables is None else (found[: len(args)], found[len(args) :])

        return result, grad

    return functools.wraps(f)(lambda *args, **kwargs: recomputing(*args, **kwargs))
