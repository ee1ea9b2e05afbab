"""`tf.import_graph_def`: the nodes of a definition in a graph under construction."""

from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.tensor import Tensor


def _graph_def_of(graph_def):
    from tensorfleet.protobuf import GraphDef

    if isinstance(graph_def, GraphDef):
        return graph_def
    if not hasattr(graph_def, "SerializeToString"):
        raise TypeError("graph_def must be a GraphDef proto.")
    try:
        return GraphDef.FromString(graph_def.SerializeToString())
    except Exception:
        raise TypeError("graph_def must be a GraphDef proto.") from None


def _name_and_slot(name):
    """`node:1` as the node's name and the number of the output; a control input has none."""
    if name.startswith("^"):
        return name[1:], -1
    node, _, slot = name.partition(":")
    return node, int(slot) if slot else 0


def _without_unknown_defaults(graph_def, producer_op_list):
    """The definition without attributes that the producer gave their default and this library does not know."""
    from tensorfleet.framework import op_library

    if producer_op_list is None:
        return graph_def
    declared = {op.name: op for op in producer_op_list.op}
    made = None
    for index, node in enumerate(graph_def.node):
        theirs = declared.get(node.op)
        if theirs is None or op_library.declaration(node.op) is None:
            continue
        known = {attr.name for attr in op_library.op_def(node.op).attr}
        for attr in theirs.attr:
            if attr.name in node.attr and attr.name not in known and attr.HasField("default_value") and node.attr[attr.name] == attr.default_value:
                if made is None:
                    made = type(graph_def).FromString(graph_def.SerializeToString())
                del made.node[index].attr[attr.name]
    return graph_def if made is None else made


@export("import_graph_def", "graph_util.import_graph_def")
def import_graph_def(graph_def, input_map=None, return_elements=None, name=None, op_dict=None, producer_op_list=None):
    """Adds the nodes of a `GraphDef` to the default graph, below a scope; gives the elements that were asked for."""
    graph_def = _without_unknown_defaults(_graph_def_of(graph_def), producer_op_list)
    if input_map is None:
        input_map = {}
    elif not (isinstance(input_map, dict) and all(isinstance(key, (str, bytes)) for key in input_map)):
        raise TypeError("input_map must be a dictionary mapping strings to Tensor objects.")
    input_map = {key.decode() if isinstance(key, bytes) else key: value for key, value in input_map.items()}
    if return_elements is not None:
        return_elements = tuple(return_elements)
        if not all(isinstance(element, (str, bytes)) for element in return_elements):
            raise TypeError("return_elements must be a list of strings.")
        return_elements = tuple(element.decode() if isinstance(element, bytes) else element for element in return_elements)
    graph = ops.get_default_graph()
    graph._check_not_finalized()
    if name is None or name:
        with ops.name_scope(name, "import", list(input_map.values())) as scope:
            prefix = scope.rstrip("/")
            mapped = _mapped(graph, input_map)
    else:
        prefix, mapped = "", _mapped(graph, input_map)
    _check_elements(graph_def, return_elements or ())
    serialized = graph_def.SerializeToString()
    depth = graph._native.depth()
    try:
        # Names stand as they are: the prefix is whole.
        graph._native.enter_name_scope("")
        start, end = graph._native.import_graph_def(serialized, prefix, mapped)
    finally:
        graph._native.leave(depth)
    for number, node in zip(range(start, end), graph_def.node):
        op = graph._operation(number)
        if "_output_shapes" in node.attr:
            _set_shapes(graph, op, node.attr["_output_shapes"].list.shape)
    _check_used(graph_def, input_map)
    if return_elements is None:
        return None
    return [_element(graph, prefix, element, input_map) for element in return_elements]


def _set_shapes(graph, op, shapes):
    """Takes over shapes that the definition tells and that cannot be found from the nodes alone, such as those of resources."""
    for output, shape in zip(op.outputs, shapes):
        if graph._native.shape(output._id) is None and not shape.unknown_rank:
            output.set_shape([None if dim.size < 0 else dim.size for dim in shape.dim])


def _mapped(graph, input_map):
    pairs = []
    for key, value in input_map.items():
        node, slot = _name_and_slot(key)
        if slot == -1:
            op = value.op if isinstance(value, Tensor) else value
            if not isinstance(op, Operation):
                raise TypeError("input_map values of control inputs must be operations or tensors")
            pairs.append((f"^{node}", op._id << 32))
            continue
        tensor = ops.convert_to_tensor(value)
        if tensor.graph is not graph:
            raise ValueError("%s is not from the default graph" % tensor)
        pairs.append((f"{node}:{slot}", tensor._id))
    return pairs


def _check_used(graph_def, input_map):
    """All keys of the map must be of nodes of the definition, or of inputs that it lacks."""
    if not input_map:
        return
    names = {node.name for node in graph_def.node}
    wanted = {_name_and_slot(name)[0] for node in graph_def.node for name in node.input}
    missing = [key for key in input_map if _name_and_slot(key)[0] not in names and _name_and_slot(key)[0] not in wanted]
    if missing:
        raise ValueError("Attempted to map inputs that were not found in graph_def: [%s]" % ", ".join(missing))


def _check_elements(graph_def, return_elements):
    names = {node.name for node in graph_def.node}
    for element in return_elements:
        if _name_and_slot(element)[0] not in names:
            raise ValueError("Requested return_element %r not found in graph_def." % element)


def _element(graph, prefix, name, input_map):
    full = f"{prefix}/{name}" if prefix else name
    if ":" in name:
        node, slot = _name_and_slot(name)
        for key in input_map:
            if _name_and_slot(key) == (node, slot):
                return ops.convert_to_tensor(input_map[key])
    try:
        return graph.as_graph_element(full)
    except (KeyError, ValueError):
        raise ValueError("Requested return_element %r not found in graph_def." % name) from None
