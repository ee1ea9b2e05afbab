"""Meta graphs: a graph with its collections and its saver, as `.meta` files hold them."""

import os
import re

from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.tensor import Tensor
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging

#: Name of a collection -> (message, to_proto, from_proto).
_REGISTRY = {}
#: Control inputs of a graph that comes from elsewhere, as TensorFlow names those it leaves open.
_UNBOUND_INPUT_PREFIX = "$unbound_inputs_"


def _message(name):
    from tensorfleet import protobuf

    return getattr(protobuf, name)


@export("register_proto_function", "contrib.framework.register_proto_function")
def register_proto_function(collection_name, proto_type=None, to_proto=None, from_proto=None):
    """Says how the things of a collection become messages, and messages things."""
    _REGISTRY[collection_name] = (proto_type, to_proto, from_proto)


def _registered(key):
    """How the things of a collection are written."""
    if key in _REGISTRY:
        return _REGISTRY[key]
    if key in GraphKeys._VARIABLE_COLLECTIONS or key in (GraphKeys.GLOBAL_STEP, GraphKeys.REGULARIZATION_LOSSES):
        from tensorfleet.ops import variables

        is_variable = key in GraphKeys._VARIABLE_COLLECTIONS or key == GraphKeys.GLOBAL_STEP
        if is_variable:
            return _message("VariableDef"), lambda value, export_scope=None: value.to_proto(export_scope=export_scope), variables.Variable.from_proto
    if key == GraphKeys.QUEUE_RUNNERS:
        from tensorfleet.training.queue_runner import QueueRunner

        return _message("QueueRunnerDef"), QueueRunner.to_proto, QueueRunner.from_proto
    if key == GraphKeys.SAVERS:
        from tensorfleet.training.saver import Saver

        return _message("SaverDef"), Saver.to_proto, Saver.from_proto
    return None


def _node_name(value, export_scope):
    if isinstance(value, Operation) or not hasattr(value, "_as_graph_element"):
        return ops.strip_name_scope(value.name, export_scope)
    return ops.strip_name_scope(value._as_graph_element().name, export_scope)


def _is_inside(value, export_scope):
    if not export_scope:
        return True
    name = getattr(value, "name", None)
    return not isinstance(name, str) or name.startswith(export_scope.rstrip("/") + "/")


def add_collection_def(meta_graph_def, key, graph=None, export_scope=None, exclude_nodes=None, override_contents=None):
    """Writes a collection into a meta graph, as far as its things can be written."""
    if graph and not isinstance(graph, ops.Graph):
        raise TypeError("graph must be of type Graph, not %s" % type(graph))
    if not isinstance(key, str) and not isinstance(key, bytes):
        logging.warning("Only collections with string type keys will be serialized. This key has %s", type(key))
        return
    graph = graph or ops.get_default_graph()
    values = override_contents if override_contents is not None else graph.get_collection(key)
    values = [value for value in values if _is_inside(value, export_scope)]
    if not values:
        return
    try:
        made = _collection_def(values, _registered(key), export_scope)
    except Exception as error:  # what a program keeps in a collection need not be writable
        logging.warning("Issue encountered when serializing %s.\nType is unsupported, or the types of the items don't match field type in CollectionDef. Note this is a warning and probably safe to ignore.\n%s", key, error)
        return
    meta_graph_def.collection_def[key].CopyFrom(made)


def _collection_def(values, registered, export_scope):
    made = _message("CollectionDef")()
    if registered is not None and registered[1] is not None:
        proto_type, to_proto, _ = registered
        for value in values:
            message = to_proto(value, export_scope=export_scope)
            if message:
                made.bytes_list.value.append(message.SerializeToString())
        return made
    first = values[0]
    if isinstance(first, (Tensor, Operation)) or hasattr(first, "_as_graph_element"):
        made.node_list.value.extend([_node_name(value, export_scope) for value in values])
    elif isinstance(first, (str, bytes)):
        made.bytes_list.value.extend([compat.as_bytes(value) for value in values])
    elif isinstance(first, float):
        made.float_list.value.extend(values)
    elif isinstance(first, int):
        made.int64_list.value.extend(values)
    else:
        raise TypeError("'%s' has type %s" % (first, type(first)))
    return made


def strip_graph_default_valued_attrs(meta_graph_def):
    """Leaves out attributes that have their default; readers put them back."""
    from tensorfleet.framework import op_library

    for node in meta_graph_def.graph_def.node:
        definition = op_library.op_def(node.op) if op_library.declaration(node.op) is not None else None
        for attr in definition.attr if definition is not None else ():
            if attr.HasField("default_value") and attr.name in node.attr and node.attr[attr.name] == attr.default_value:
                del node.attr[attr.name]
    meta_graph_def.meta_info_def.stripped_default_attrs = True


def stripped_op_list_for_graph(graph_def):
    """The declarations of the ops of a graph, without what only documentation needs."""
    from tensorfleet.framework import op_library

    made = _message("OpList")()
    kinds = {node.op for node in graph_def.node}
    for function in graph_def.library.function:
        kinds.update(node.op for node in function.node_def)
    for kind in sorted(kinds):
        if op_library.declaration(kind) is not None:
            made.op.add().CopyFrom(op_library.op_def(kind))
    return made


def create_meta_graph_def(
    meta_info_def=None, graph_def=None, saver_def=None, collection_list=None, graph=None, export_scope=None, exclude_nodes=None,
    clear_extraneous_savers=False, strip_default_attrs=False,
):
    """A graph with its collections and its saver as a `MetaGraphDef`."""
    from tensorfleet.platform import versions

    graph = graph or ops.get_default_graph()
    made = _message("MetaGraphDef")()
    if meta_info_def:
        made.meta_info_def.MergeFrom(meta_info_def)
    graph_def = graph.as_graph_def(add_shapes=True) if not graph_def else graph_def
    made.graph_def.MergeFrom(graph_def)
    if not made.meta_info_def.HasField("stripped_op_list"):
        made.meta_info_def.stripped_op_list.MergeFrom(stripped_op_list_for_graph(made.graph_def))
    if strip_default_attrs:
        strip_graph_default_valued_attrs(made)
    made.meta_info_def.tensorflow_version = versions.__version__
    made.meta_info_def.tensorflow_git_version = versions.__git_version__
    if saver_def:
        made.saver_def.MergeFrom(saver_def)
    keys = collection_list if collection_list is not None else [key for key in graph.get_all_collection_keys()]
    for key in keys:
        if clear_extraneous_savers and key == GraphKeys.SAVERS:
            continue
        add_collection_def(made, key, graph=graph, export_scope=export_scope, exclude_nodes=exclude_nodes)
    return made


def read_meta_graph_file(filename):
    """Reads a meta graph, in binary or in text form."""
    filename = os.fspath(filename)
    if not os.path.exists(filename):
        raise IOError("File %s does not exist." % filename)
    made = _message("MetaGraphDef")()
    with open(filename, "rb") as file:
        content = file.read()
    try:
        made.ParseFromString(content)
        return made
    except Exception:  # it may be text
        made = _message("MetaGraphDef")()
    from tensorfleet.protobuf import text_format

    try:
        text_format.Merge(content.decode("utf-8"), made)
    except Exception as error:
        raise IOError("Cannot parse file %s: %s." % (filename, str(error))) from None
    return made


def import_scoped_meta_graph(meta_graph_or_file, clear_devices=False, graph=None, import_scope=None, input_map=None, unbound_inputs_col_name="unbound_inputs", restore_collections_predicate=(lambda key: True)):
    """Adds a meta graph to a graph; gives its variables by name."""
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices, graph, import_scope, input_map, unbound_inputs_col_name, restore_collections_predicate
    )[0]


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file, clear_devices=False, graph=None, import_scope=None, input_map=None, unbound_inputs_col_name="unbound_inputs",
    restore_collections_predicate=(lambda key: True), return_elements=None,
):
    from tensorfleet.framework import importer

    read = meta_graph_or_file if isinstance(meta_graph_or_file, _message("MetaGraphDef")) else read_meta_graph_file(meta_graph_or_file)
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        producer_op_list = read.meta_info_def.stripped_op_list if read.meta_info_def.HasField("stripped_op_list") else None
        graph_def = read.graph_def
        if clear_devices:
            graph_def = type(graph_def).FromString(graph_def.SerializeToString())
            for node in graph_def.node:
                node.device = ""
        scope = "" if not import_scope else graph.unique_name(import_scope, mark_as_used=False)
        imported = importer.import_graph_def(
            graph_def, name=import_scope or scope, input_map=input_map, producer_op_list=producer_op_list, return_elements=return_elements
        )
        # A scope that was taken has got a number.
        variables = {}
        known = {}
        for key, held in sorted(read.collection_def.items()):
            if not restore_collections_predicate(key):
                continue
            _restore_collection(graph, key, held, scope, known, variables)
        return variables, imported


def _restore_collection(graph, key, held, scope, known, variables):
    kind = held.WhichOneof("kind")
    if kind is None:
        logging.error("Cannot identify data type for collection %s. Skipping.", key)
        return
    registered = _registered(key)
    values = getattr(held, kind).value
    if kind == "bytes_list" and registered is not None and registered[2] is not None:
        proto_type, _, from_proto = registered
        for serialized in values:
            # The same variable in two collections is one object.
            if key in GraphKeys._VARIABLE_COLLECTIONS or key == GraphKeys.GLOBAL_STEP:
                made = known.get(serialized)
                if made is None:
                    made = known[serialized] = from_proto(proto_type.FromString(serialized), import_scope=scope)
                variables[ops.strip_name_scope(made.name, scope)] = made
            else:
                made = from_proto(proto_type.FromString(serialized), import_scope=scope)
            graph.add_to_collection(key, made)
    elif kind == "node_list":
        for name in values:
            try:
                graph.add_to_collection(key, graph.as_graph_element(ops.prepend_name_scope(name, scope)))
            except (KeyError, ValueError) as error:
                logging.warning("An element of the collection %s is not in the graph: %s", key, error)
    else:
        for value in values:
            graph.add_to_collection(key, int(value) if kind == "int64_list" else value)


def export_scoped_meta_graph(
    filename=None, graph_def=None, graph=None, export_scope=None, as_text=False, unbound_inputs_col_name="unbound_inputs",
    clear_devices=False, saver_def=None, clear_extraneous_savers=False, strip_default_attrs=False, save_debug_info=False, **kwargs,
):
    """A graph, or a scope of it, as a `MetaGraphDef`, and its variables by name."""
    graph = graph or ops.get_default_graph()
    exclude_nodes = None
    graph_def = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    if export_scope or clear_devices:
        graph_def = _scoped_graph_def(graph_def, export_scope, clear_devices, clear_extraneous_savers, saver_def)
    variables = {}
    for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=export_scope):
        variables[ops.strip_name_scope(variable.name, export_scope)] = variable
    made = create_meta_graph_def(
        graph_def=graph_def,
        graph=graph,
        export_scope=export_scope,
        exclude_nodes=exclude_nodes,
        clear_extraneous_savers=clear_extraneous_savers,
        saver_def=saver_def,
        strip_default_attrs=strip_default_attrs,
        **{key: value for key, value in kwargs.items() if key in ("meta_info_def", "collection_list")},
    )
    if filename:
        directory, name = os.path.split(os.fspath(filename))
        from tensorfleet.training.write_graph import write_graph

        write_graph(made, directory, name, as_text=as_text)
    return made, variables


def _scoped_graph_def(graph_def, export_scope, clear_devices, clear_extraneous_savers, saver_def):
    prefix = None if not export_scope else export_scope.rstrip("/") + "/"
    made = _message("GraphDef")(versions=graph_def.versions)
    made.library.CopyFrom(graph_def.library)
    savers = re.compile("^save(_[0-9]+)?/") if clear_extraneous_savers and saver_def is None else None
    for node in graph_def.node:
        if prefix and not node.name.startswith(prefix):
            continue
        if savers is not None and savers.match(ops.strip_name_scope(node.name, export_scope)):
            continue
        kept = made.node.add()
        kept.CopyFrom(node)
        kept.name = ops.strip_name_scope(node.name, export_scope)
        inputs = []
        for name in node.input:
            if prefix and not name.lstrip("^").startswith(prefix):
                if not name.startswith("^"):
                    inputs.append(_UNBOUND_INPUT_PREFIX + name)
                continue
            inputs.append(ops.strip_name_scope(name, export_scope))
        del kept.input[:]
        kept.input.extend(inputs)
        if "_class" in kept.attr and prefix:
            groups = [compat.as_text(group) for group in kept.attr["_class"].list.s]
            del kept.attr["_class"].list.s[:]
            kept.attr["_class"].list.s.extend([compat.as_bytes(ops.strip_name_scope(group, export_scope)) for group in groups if not group.startswith("loc:@") or group[5:].startswith(prefix)])
        if clear_devices:
            kept.device = ""
    return made
