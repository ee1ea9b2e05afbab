"""Branches, loops and order: `tf.cond`, `tf.case`, `tf.while_loop`, `tf.group`, `tf.tuple`, `tf.Assert`.

The nodes are made by the library; this module calls the functions that build branches and bodies, and takes structures apart and
puts them together again.
"""

import contextlib

from tensorfleet import _native
from tensorfleet.framework import dtypes, gen, ops, stacks
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape, as_shape
from tensorfleet.platform import nest

_SUMMARIES = "_summaries"


@export("no_op")
def no_op(name=None):
    """Does nothing; others may wait for it."""
    return gen.NoOp(name=name)


def identity(value, name=None):
    """`value`, as the value of another node."""
    if isinstance(value, IndexedSlices):
        return IndexedSlices(identity(value.values), identity(value.indices), None if value.dense_shape is None else identity(value.dense_shape))
    if isinstance(value, SparseTensor):
        return SparseTensor(identity(value.indices), identity(value.values), identity(value.dense_shape))
    if value.dtype._is_ref_dtype:
        return gen.RefIdentity(value, name=name)
    return gen.Identity(value, name=name)


def with_dependencies(dependencies, output_tensor, name=None):
    """`output_tensor`, once the operations `dependencies` are done."""
    with ops.name_scope(name, "control_dependency", list(dependencies) + [output_tensor]) as name:
        with ops.colocate_with(output_tensor), ops.control_dependencies(dependencies):
            if not isinstance(output_tensor, (IndexedSlices, SparseTensor)):
                output_tensor = ops.convert_to_tensor(output_tensor, as_ref=True)
            return identity(output_tensor, name=name)


# ---- order


def _device_groups(operations):
    by_device = {}
    for op in operations:
        by_device.setdefault(op.device, []).append(op)
    return by_device


def _group_on(device, dependencies, name=None):
    """A node that does nothing after these, on their device."""
    with contextlib.ExitStack() as stack:
        if device:
            stack.enter_context(ops.device(device))
        stack.enter_context(ops.control_dependencies(dependencies))
        return no_op(name=name)


@export("group")
def group(*inputs, **kwargs):
    """An operation that is done when all of `inputs` are."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs))
    with ops.name_scope(name, "group_deps", inputs) as name:
        if not inputs:
            return no_op(name=name)
        operations = []
        for item in nest.flatten(inputs, expand_composites=True):
            if not hasattr(item, "device"):
                raise TypeError(f"Expected tf.group() expected Tensor arguments not '{item}' with type '{type(item)}'")
            operations.append(getattr(item, "op", item))
        by_device = _device_groups(operations)
        if len(by_device) == 1:
            ((device, dependencies),) = by_device.items()
            return _group_on(device, dependencies, name=name)
        with stacks.get_default_graph().name_scope(name):
            done = [_group_on(device, by_device[device]) for device in sorted(by_device)]
        with ops.control_dependencies(done):
            return no_op(name=name)


@export("tuple")
def tuple_v1(tensors, name=None, control_inputs=None):
    """The tensors, once all of them are computed."""
    with ops.name_scope(name, "tuple", tensors) as name:
        tensors = [
            item if item is None or isinstance(item, (Operation, IndexedSlices, Tensor)) or hasattr(item, "op") else ops.convert_to_tensor(item)
            for item in tensors
        ]
        gates = [item if isinstance(item, Operation) else item.op for item in tensors if item is not None]
        for item in control_inputs or ():
            if isinstance(item, Tensor):
                item = item.op
            elif not isinstance(item, Operation):
                raise TypeError(f"Control input must be Operation or Tensor: {item}")
            gates.append(item)
        gates = sorted(set(gates), key=lambda op: op._id)
        if not gates:
            raise ValueError(f"Must have at least one Tensor: {tensors}")
        gate = group(*gates)
        results = []
        for item in tensors:
            if item is None or isinstance(item, Operation):
                results.append(None if item is None else with_dependencies([gate], item))
            else:
                results.append(with_dependencies([gate], item))
        return results


@export("Assert", "debugging.Assert")
def Assert(condition, data, summarize=None, name=None):
    """An operation that fails with `data` if the condition is false."""
    with ops.name_scope(name, "Assert", [condition, data]):
        if not isinstance(data, (list, tuple)) and not nest.is_nested(data):
            raise TypeError("values must be a sequence.")
        data = list(data)
        if all(item.dtype.base_dtype in (dtypes.string, dtypes.int32) for item in ops.convert_n_to_tensor(data)):
            return gen.Assert(condition, data, summarize=3 if summarize is None else summarize, name="Assert")
        condition = ops.convert_to_tensor(condition, name="Condition")

        def failed():
            return gen.Assert(condition, data, summarize=3 if summarize is None else summarize, name="Assert")

        return cond(condition, no_op, failed, name="AssertGuard").op


# ---- branches


def _unpacked(results):
    return results[0] if isinstance(results, (list, tuple)) and not hasattr(results, "_fields") and len(results) == 1 else results


@contextlib.contextmanager
def _inside(graph, enter):
    depth = graph._native.depth()
    enter()
    try:
        yield
    finally:
        graph._native.leave(depth)


def _summaries_joined(before, result):
    """`result` after the summaries that a branch or body has made: what is inside of it cannot be merged outside."""
    new = ops.get_collection(_SUMMARIES)[len(before) :]
    if not new:
        return result, False
    ops.get_collection_ref(_SUMMARIES)[:] = before
    with ops.control_dependencies(new):
        if result is None:
            return no_op(), True
        if isinstance(result, Operation):
            return result, True
        return nest.map_structure(lambda item: item.identity() if hasattr(item, "flow") else identity(item), result, expand_composites=True), True


class _Branches:
    """The two branches of a `tf.cond` under construction."""

    def __init__(self, graph, predicate):
        self.graph = graph
        self.native = _native.Cond(graph._native, predicate._id)

    def _result(self, item, is_true):
        if isinstance(item, Operation) or type(item).__name__ == "Operation":
            item = with_dependencies([item], self.graph._tensor(self.native.pivot(self.graph._native, is_true)))
        elif hasattr(item, "flow") and hasattr(item, "handle"):
            item = item.flow
        else:
            item = ops.convert_to_tensor(item)
        return self.graph._tensor(self.native.result(self.graph._native, is_true, item._id))

    def build(self, function, is_true, strict):
        """Calls the function inside of its branch; gives what it gave, and the tensors of that."""
        with _inside(self.graph, lambda: self.native.enter(self.graph._native, is_true)):
            before = ops.get_collection(_SUMMARIES)
            original, _ = _summaries_joined(before, function())
            if original is None:
                return None, None
            if not strict:
                original = _unpacked(original)
            results = [self._result(item, is_true) for item in nest.flatten(original, expand_composites=True)]
            if nest.is_sequence_or_composite(original):
                # TensorFlow puts them together once more here, which takes a name for each sparse tensor.
                nest.pack_sequence_as(original, results, expand_composites=True)
            return original, results

    def join(self, if_true, if_false):
        return self.graph._tensor(self.native.join(self.graph._native, if_true._id, if_false._id))


def _functions(true_fn, false_fn, fn1, fn2):
    if fn1 is not None:
        if true_fn is not None:
            raise TypeError("cond(): true_fn and fn1 may not be set simultaneously.")
        true_fn = fn1
    elif true_fn is None:
        raise TypeError("cond(): true_fn argument required")
    if fn2 is not None:
        if false_fn is not None:
            raise TypeError("cond(): false_fn and fn2 may not be set simultaneously.")
        false_fn = fn2
    elif false_fn is None:
        raise TypeError("cond(): false_fn argument required")
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")
    return true_fn, false_fn


@export("cond")
def cond(pred, true_fn=None, false_fn=None, strict=False, name=None, fn1=None, fn2=None):
    """What `true_fn` gives if `pred` is true, else what `false_fn` gives."""
    true_fn, false_fn = _functions(true_fn, false_fn, fn1, fn2)
    with ops.name_scope(name, "cond", [pred]):
        if isinstance(pred, bool):
            raise TypeError("pred must not be a Python bool")
        pred = ops.convert_to_tensor(pred)
        if pred.dtype.base_dtype != dtypes.bool:
            raise TypeError(f"Input 'pred' of 'Switch' Op has type {pred.dtype.base_dtype.name} that does not match expected type of bool.")
        graph = stacks.get_default_graph()
        start = len(graph._native)
        branches = _Branches(graph, pred)
        for number in range(start, len(graph._native)):
            op = graph._operation(number)
            if op.type in ("Switch", "Identity"):
                graph.prevent_fetching(op)
        original_true, flat_true = branches.build(true_fn, True, strict)
        if original_true is None:
            raise ValueError("true_fn must have a return value.")
        original_false, flat_false = branches.build(false_fn, False, strict)
        if original_false is None:
            raise ValueError("false_fn must have a return value.")
        nest.assert_same_structure(original_true, original_false, expand_composites=True)
        if not flat_true:
            raise ValueError("true_fn and false_fn must return at least one result.")
        for if_true, if_false in zip(flat_true, flat_false):
            if if_true.dtype.base_dtype != if_false.dtype.base_dtype:
                raise ValueError(
                    f"Outputs of true_fn and false_fn must have the same type: {if_true.dtype.name}, {if_false.dtype.name}"
                )
        merged = [branches.join(if_true, if_false) for if_true, if_false in zip(flat_true, flat_false)]
        merged = _as_tensor_arrays(nest.flatten(original_true, expand_composites=True), merged)
        result = nest.pack_sequence_as(original_true, merged, expand_composites=True)
        return result if strict else _unpacked(result)


def _as_tensor_arrays(likes, tensors):
    """Flows become arrays again where `likes` has arrays."""
    from tensorfleet.ops import tensor_array

    return [tensor_array.build_ta_with_new_flow(like, tensor) if isinstance(like, tensor_array.TensorArray) else tensor for like, tensor in zip(likes, tensors)]


def _as_flows(items):
    return [item.flow if hasattr(item, "flow") and hasattr(item, "handle") else item for item in items]


# ---- loops


def _invariants(loop_vars, shape_invariants):
    """The invariant of each flat loop variable."""
    nest.assert_same_structure(loop_vars, shape_invariants, expand_composites=False)
    flat = []
    for variable, invariant in zip(nest.flatten(loop_vars), nest.flatten(shape_invariants)):
        if isinstance(variable, SparseTensor):
            rank = as_shape(invariant).rank
            flat += [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])]
        elif isinstance(variable, IndexedSlices):
            shape = as_shape(invariant)
            flat += [shape, TensorShape([None])] + ([] if variable.dense_shape is None else [TensorShape([shape.rank])])
        elif not isinstance(invariant, TensorShape) and not isinstance(invariant, (list, tuple)) and invariant is not None:
            raise TypeError(f"{invariant} is not a shape")
        else:
            flat.append(as_shape(invariant))
    return flat


class _LoopBuilder:
    """A `tf.while_loop` under construction."""

    def __init__(self, graph, loop_vars, invariants, parallel_iterations):
        self.graph = graph
        self.structure = loop_vars
        self.likes = nest.flatten(loop_vars, expand_composites=True)
        self.first = [ops.convert_to_tensor(item) for item in _as_flows(self.likes)]
        shapes = [] if invariants is None else [shape._numbers() for shape in invariants]
        for first, shape in zip(self.first, invariants or ()):
            if not _generalizes(shape, first.shape):
                raise ValueError(
                    f"The shape invariant specified for {first.name} is not compatible with the initial shape of the loop variable. It enters "
                    f"the loop with shape {first.shape}, but the specified shape invariant is {shape}."
                )
        self.native = _native.Loop(graph._native, [first._id for first in self.first], parallel_iterations, shapes)

    def _packed(self, numbers):
        tensors = _as_tensor_arrays(self.likes, [self.graph._tensor(number) for number in numbers])
        return nest.pack_sequence_as(self.structure, tensors, expand_composites=True)

    def build(self, goes_on, body):
        """Calls the functions inside of the loop; gives what the body gave, and the tensors after the loop."""
        native = self.graph._native
        with _inside(self.graph, lambda: self.native.enter(native)):
            merged = self.native.variables()
            for number in merged:
                native_enter = self.graph._tensor(number).op.inputs[0]
                self.graph.prevent_feeding(native_enter)
            condition = ops.convert_to_tensor(goes_on(*self._packed(merged)))
            if condition.dtype.base_dtype != dtypes.bool:
                raise TypeError(f"Input 'input' of 'LoopCond' Op has type {condition.dtype.base_dtype.name} that does not match expected type of bool.")
            inside = self.native.condition(native, condition._id)
            given = self._packed(inside)
            before = ops.get_collection(_SUMMARIES)
            result = body(*given)
            if not nest.is_sequence_or_composite(result):
                result = [result]
            result, _ = _summaries_joined(before, result)
            nest.assert_same_structure(list(given), list(result), expand_composites=True)
            values = [ops.convert_to_tensor(item) for item in _as_flows(nest.flatten(result, expand_composites=True))]
            for first, number, value in zip(self.first, merged, values):
                _check_next(first, self.graph._tensor(number), value)
            exits = self.native.end(native, [value._id for value in values])
        return result, [self.graph._tensor(number) for number in exits]


def _generalizes(general, specific):
    if general.rank is None:
        return True
    if specific.rank != general.rank:
        return False
    return all(wide is None or wide == narrow for wide, narrow in zip(general.as_list(), specific.as_list()))


def _check_next(first, merged, value):
    if not _generalizes(merged.shape, value.shape):
        raise ValueError(
            f"Input tensor '{first.name}' enters the loop with shape {merged.shape}, but has shape {value.shape} after one iteration. To allow the "
            "shape to vary across iterations, use the `shape_invariants` argument of tf.while_loop to specify a less-specific shape."
        )


@export("while_loop")
def while_loop(
    cond,
    body,
    loop_vars,
    shape_invariants=None,
    parallel_iterations=10,
    back_prop=True,
    swap_memory=False,
    name=None,
    maximum_iterations=None,
    return_same_structure=False,
):
    """Repeats `body` while `cond` is true."""
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    with ops.name_scope(name, "while", loop_vars if isinstance(loop_vars, (list, tuple)) else None):
        if not loop_vars:
            raise ValueError("No loop variables provided")
        # A single variable is given and taken without a list around it.
        unpack = len(loop_vars) == 1 and not return_same_structure
        goes_on, step = cond, body
        if maximum_iterations is not None:
            loop_vars, shape_invariants, goes_on, step = _counted(cond, body, loop_vars, shape_invariants, maximum_iterations)
        invariants = None if shape_invariants is None else _invariants(loop_vars, shape_invariants)
        loop_vars = nest.map_structure(
            lambda item: item if hasattr(item, "flow") and hasattr(item, "handle") else ops.convert_to_tensor(item), loop_vars, expand_composites=True
        )
        graph = stacks.get_default_graph()
        builder = _LoopBuilder(graph, loop_vars, invariants, parallel_iterations)
        try:
            result, exits = builder.build(goes_on, step)
        except BaseException:
            builder.native.abandon(graph._native)
            raise
        exits = _as_tensor_arrays(nest.flatten(result, expand_composites=True), exits)
        packed = nest.pack_sequence_as(result, exits, expand_composites=True)
        if not back_prop:
            _stop(graph, exits)
        if maximum_iterations is not None:
            packed = packed[1]
            return packed[0] if unpack and nest.is_nested(packed) and len(packed) == 1 else packed
        return packed[0] if unpack and len(exits) == 1 else packed


def _stop(graph, exits):
    """Marks the values of a loop that gradients do not go through."""
    stopped = graph.__dict__.setdefault("_without_back_prop", set())
    stopped.update(item._id for item in _as_flows(exits))


def _counted(cond, body, loop_vars, shape_invariants, maximum_iterations):
    """The loop with a counter of its iterations as a first variable."""
    maximum = ops.convert_to_tensor(maximum_iterations, name="maximum_iterations")
    if maximum.shape.rank != 0:
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {maximum.shape}")
    counter = constant(0, dtype=maximum.dtype, name="iteration_counter")
    if len(loop_vars) == 1:
        loop_vars = (counter, loop_vars[0])
        if shape_invariants is not None:
            shape_invariants = (TensorShape([]), nest.flatten(shape_invariants)[0])

        def goes_on(i, variable):
            return gen.LogicalAnd(i < maximum, cond(variable))

        def step(i, variable):
            return i + 1, body(variable)

        return loop_vars, shape_invariants, goes_on, step
    if shape_invariants is not None:
        shape_invariants = (TensorShape([]), shape_invariants)

    def goes_on_all(i, variables):
        return gen.LogicalAnd(i < maximum, cond(*variables))

    def step_all(i, variables):
        return i + 1, body(*variables)

    return (counter, loop_vars), shape_invariants, goes_on_all, step_all


# ---- the parts of branches


def switch(data, pred, dtype=None, name=None):
    """`data` on output 0 if `pred` is false, on output 1 if it is true."""
    with ops.name_scope(name, "Switch", [data, pred]) as name:
        data = ops.convert_to_tensor(data, dtype=dtype, name="data")
        pred = ops.convert_to_tensor(pred, name="pred")
        return gen.Switch(data, pred, name=name)


def merge(inputs, name=None):
    """The first of `inputs` that is there, and its index."""
    if any(item is None for item in inputs):
        raise ValueError("At least one of the merge inputs is None: %s" % inputs)
    with ops.name_scope(name, "Merge", inputs) as name:
        inputs = [ops.convert_to_tensor(item, as_ref=True) for item in inputs]
        if all(item.dtype._is_ref_dtype for item in inputs):
            return gen.RefMerge(inputs, name=name)
        return gen.Merge(inputs, name=name)


def smart_constant_value(pred):
    """The value of a predicate, if it is known."""
    if isinstance(pred, bool):
        return pred
    if pred in (0, 1) and not isinstance(pred, Tensor):
        return bool(pred)
    if isinstance(pred, Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred}")


def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """`tf.cond`, or the function itself if `pred` is known."""
    if not callable(true_fn):
        raise TypeError("`true_fn` must be callable.")
    if not callable(false_fn):
        raise TypeError("`false_fn` must be callable.")
    value = smart_constant_value(pred)
    if value is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if value else false_fn()


def __getattr__(name):
    # Its own module needs this one first.
    if name == "case":
        from tensorfleet.ops import cases

        return cases.case
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
