"""`tf.graph_util`: definitions of graphs made smaller."""

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export

_VARIABLE_OPS = {"Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub", "ScatterUpdate", "TruncatedNormal", "Variable", "VariableV2"}


def _node_name(name):
    if name.startswith("^"):
        return name[1:]
    return name.split(":")[0]


def _graph_def():
    from tensorfleet.protobuf import GraphDef

    return GraphDef


@export("graph_util.must_run_on_cpu")
def must_run_on_cpu(node, pin_variables_on_cpu=False):
    """Whether a node can run on processors only: strings, and variables if one wants it so."""
    from tensorfleet.framework.operation import Operation

    node_def = node.node_def if isinstance(node, Operation) else node
    if pin_variables_on_cpu and node_def.op in _VARIABLE_OPS:
        return True
    if node_def.op == "Const":
        return node_def.attr["dtype"].type == dtypes.string.as_datatype_enum
    if node_def.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return node_def.attr["T"].type == dtypes.int32.as_datatype_enum
    if node_def.op in ("Cast",):
        return node_def.attr["SrcT"].type == dtypes.int32.as_datatype_enum
    return False


@export("graph_util.extract_sub_graph")
def extract_sub_graph(graph_def, dest_nodes):
    """What is needed to compute some nodes."""
    if not isinstance(graph_def, _graph_def()):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list.")
    by_name = {node.name: node for node in graph_def.node}
    for name in dest_nodes:
        assert name in by_name, "%s is not in graph" % name
    reached, waiting = set(), list(dest_nodes)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting.extend(_node_name(input_name) for input_name in by_name[name].input)
    made = _graph_def()()
    for node in graph_def.node:
        if node.name in reached:
            made.node.add().CopyFrom(node)
    made.library.CopyFrom(graph_def.library)
    made.versions.CopyFrom(graph_def.versions)
    return made


@export("graph_util.tensor_shape_from_node_def_name")
def tensor_shape_from_node_def_name(graph, input_name):
    """The shape of an output, by its name."""
    canonical = input_name if ":" in input_name else input_name + ":0"
    return graph.get_tensor_by_name(canonical).get_shape()


@export("graph_util.convert_variables_to_constants")
def convert_variables_to_constants(sess, input_graph_def, output_node_names, variable_names_whitelist=None, variable_names_blacklist=None):
    """The definition of what some nodes need, with the values of variables in their place."""
    from tensorfleet import _native
    from tensorfleet.protobuf import AttrValue

    inference = extract_sub_graph(input_graph_def, output_node_names)
    by_name = {node.name: node for node in inference.node}
    resources = {}

    def handle_of(name):
        """The handle behind identities and switches."""
        node = by_name[_node_name(name)]
        while node.op in ("Identity", "Switch", "Enter"):
            node = by_name[_node_name(node.input[0])]
        return node if node.op == "VarHandleOp" else None

    names = []
    for node in inference.node:
        if node.op in ("Variable", "VariableV2", "VarHandleOp"):
            if variable_names_whitelist is not None and node.name not in variable_names_whitelist:
                continue
            if variable_names_blacklist is not None and node.name in variable_names_blacklist:
                continue
            names.append(node.name)
            resources[node.name] = node.op == "VarHandleOp"
    fetches = [name + "/Read/ReadVariableOp:0" if resources[name] else name + ":0" for name in names]
    values = dict(zip(names, sess.run(fetches))) if names else {}
    made = _graph_def()()
    for node in inference.node:
        kept = made.node.add()
        if node.name in values:
            array = values[node.name]
            dtype = node.attr["dtype"]
            kept.op, kept.name = "Const", node.name
            kept.attr["dtype"].CopyFrom(dtype)
            import numpy as np

            proto = _native.tensor_proto(np.asarray(array), dtype.type)
            kept.attr["value"].CopyFrom(AttrValue(tensor=_tensor_proto().FromString(proto)))
            continue
        if node.op == "ReadVariableOp" and handle_of(node.input[0]) is not None and handle_of(node.input[0]).name in values:
            kept.op, kept.name = "Identity", node.name
            kept.attr["T"].CopyFrom(node.attr["dtype"])
            kept.input.extend([_node_name(node.input[0])])
            continue
        kept.CopyFrom(node)
    made.library.CopyFrom(inference.library)
    from tensorfleet.platform import tf_logging as logging

    logging.info("Converted %d variables to const ops.", len(values))
    return made


def _tensor_proto():
    from tensorfleet.protobuf import TensorProto

    return TensorProto


@export("graph_util.remove_training_nodes")
def remove_training_nodes(input_graph, protected_nodes=None):
    """A definition without nodes that only training needs: checks, and identities that only pass a value on."""
    protected_nodes = protected_nodes or []
    checks = {node.name for node in input_graph.node if node.op == "CheckNumerics" and node.name not in protected_nodes}
    first = []
    for node in input_graph.node:
        if node.name in checks:
            continue
        kept = type(node)()
        kept.CopyFrom(node)
        del kept.input[:]
        kept.input.extend([full for full in node.input if full.lstrip("^") not in checks])
        first.append(kept)
    controlled = {_node_name(name) for node in first for name in node.input if name.startswith("^")}
    has_control = {node.name for node in first if any(name.startswith("^") for name in node.input)}
    spliced = {
        node.name: node.input[0]
        for node in first
        if node.op == "Identity" and node.name not in protected_nodes and node.name not in controlled and node.name not in has_control and node.input
    }
    made = _graph_def()()
    for node in first:
        if node.name in spliced:
            continue
        kept = made.node.add()
        kept.CopyFrom(node)
        del kept.input[:]
        for full in node.input:
            while full.lstrip("^") in spliced:
                full = spliced[full.lstrip("^")]
            kept.input.append(full)
    made.library.CopyFrom(input_graph.library)
    made.versions.CopyFrom(input_graph.versions)
    return made
