"""`tf.switch_case`: one of several functions by a number."""

from tensorfleet.framework import dtypes, function, gen, ops, stacks
from tensorfleet.framework.export import export
from tensorfleet.platform import nest


def _branches(branch_fns, default):
    """The function for each number, and the default after them."""
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError("branch_fns must be a list, tuple, or dict")
    if not branch_fns:
        raise ValueError("Must provide at least one item in branch_fns")
    pairs = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if all(callable(pair) for pair in pairs):
        pairs = list(enumerate(pairs))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in branch_fns must be a 2-tuple")
        if not isinstance(pair[0], int):
            raise TypeError(f"key must be a Python `int`, got {type(pair[0])}")
        if not callable(pair[1]):
            raise TypeError(f"fn for key {pair[0]} must be callable.")
    keys = sorted(key for key, _ in pairs)
    if keys != list(range(len(keys))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(keys)}) but found {{{','.join(map(str, keys))}}}"
        )
    ordered = [branch for _, branch in sorted(pairs, key=lambda pair: pair[0])]
    return ordered if default is None else ordered + [default]


def _trace(branch, name, outer):
    graph = function.FuncGraph(name, outer)
    with graph.as_default():
        result = branch()
        flat = [graph.capture(ops.convert_to_tensor(item)) for item in nest.flatten(result, expand_composites=True)]
        flat = [gen.Identity(item) for item in flat]
    return graph, result, flat


def _give_same_arguments(graphs):
    """Makes all functions take what any of them captured; gives the values."""
    captured = {}
    for graph in graphs:
        captured.update({number: outer for number, (outer, _) in graph.captures.items()})
    for graph in graphs:
        for outer in captured.values():
            graph.capture(outer)
        graph.captures = {number: graph.captures[number] for number in captured}
        graph.inputs = [inside for _, inside in graph.captures.values()]
    return list(captured.values())


@export("switch_case")
def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    """What the function with this number gives; that of `default` for any other number."""
    from tensorfleet.protobuf import AttrValue

    branches = _branches(branch_fns, default)
    with ops.name_scope(name, "switch_case", [branch_index]):
        branch_index = ops.convert_to_tensor(branch_index, dtype=dtypes.int32, name="branch_index")
        if len(branches) == 1:
            return branches[0]()
        outer = stacks.get_default_graph()
        with ops.name_scope("indexed_case") as scope:
            prefix = scope.rstrip("/").replace("/", "_")
            traced = [_trace(branch, f"{prefix}_branch{number}", outer) for number, branch in enumerate(branches)]
            for graph, result, flat in traced[1:]:
                nest.assert_same_structure(traced[0][1], result, expand_composites=True)
                for one, other in zip(traced[0][2], flat):
                    if one.dtype != other.dtype:
                        raise TypeError(f"Branches of switch_case give {one.dtype.name} and {other.dtype.name}")
            inputs = _give_same_arguments([graph for graph, _, _ in traced])
            functions = [function.DefinedFunction(f"{graph.name}_{next(function._numbers)}", graph, flat) for graph, _, flat in traced]
            shapes = [_common([flat[index].shape for _, _, flat in traced]) for index in range(len(traced[0][2]))]
            outputs = gen.Case(
                branch_index, inputs, Tout=[item.dtype.base_dtype for item in traced[0][2]], branches=functions, output_shapes=shapes, name=scope
            )
            outputs[0].op._set_attr("_lower_using_switch_merge", AttrValue(b=True))
            outputs = [gen.Identity(output) for output in outputs]
        for output, shape in zip(outputs, shapes):
            output.set_shape(shape)
        packed = nest.pack_sequence_as(traced[0][1], outputs, expand_composites=True)
        return packed


def _common(shapes):
    shape = shapes[0]
    for other in shapes[1:]:
        shape = shape.most_specific_compatible_shape(other)
    return shape
