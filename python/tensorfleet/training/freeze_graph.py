"""A graph and a checkpoint as one file of constants, as `tensorflow.python.tools.freeze_graph` makes it."""

import os

from tensorfleet.client import session as session_lib
from tensorfleet.framework import graph as graph_lib
from tensorfleet.framework import graph_util, importer
from tensorfleet.training import saver as saver_lib


def _read(message, path, binary):
    from tensorfleet.protobuf import text_format

    if not os.path.exists(path):
        raise IOError("Input file '%s' does not exist!" % path)
    with open(path, "rb") as file:
        content = file.read()
    if binary:
        message.ParseFromString(content)
    else:
        text_format.Merge(content.decode("utf-8"), message)
    return message


def freeze_graph(
    input_graph, input_saver, input_binary, input_checkpoint, output_node_names, restore_op_name, filename_tensor_name, output_graph,
    clear_devices, initializer_nodes, variable_names_whitelist="", variable_names_blacklist="", input_meta_graph=None,
    input_saved_model_dir=None, saved_model_tags="serve", checkpoint_version=2,
):
    """Reads a graph and a checkpoint, and writes the graph with the values of its variables in their place."""
    from tensorfleet.protobuf import GraphDef, MetaGraphDef, SaverDef

    names = [name.strip() for name in output_node_names.split(",") if name.strip()]
    if not names:
        raise ValueError("You must supply the name of a node to --output_node_names.")
    graph_def = None
    if input_graph:
        graph_def = _read(GraphDef(), input_graph, input_binary)
    elif input_meta_graph:
        graph_def = _read(MetaGraphDef(), input_meta_graph, input_binary).graph_def
    if graph_def is None:
        raise ValueError("a graph must be given: input_graph or input_meta_graph")
    if clear_devices:
        for node in graph_def.node:
            node.device = ""

    def split(text):
        return text.replace(" ", "").split(",") if text else None

    with graph_lib.Graph().as_default():
        importer.import_graph_def(graph_def, name="")
        with session_lib.Session() as sess:
            if input_saver:
                saver_lib.Saver(saver_def=_read(SaverDef(), input_saver, input_binary)).restore(sess, input_checkpoint)
            else:
                sess.run([restore_op_name], {filename_tensor_name: input_checkpoint})
                if initializer_nodes:
                    sess.run(initializer_nodes.replace(" ", "").split(","))
            frozen = graph_util.convert_variables_to_constants(
                sess, graph_def, names, split(variable_names_whitelist), split(variable_names_blacklist)
            )
    if output_graph:
        with open(output_graph, "wb") as file:
            file.write(frozen.SerializeToString())
    return frozen
