"""Checkpoints, meta graphs and saver nodes of ours in the eyes of TensorFlow, and TensorFlow's for us to read.

    checkpoints.py --directory DIR

`DIR/ours/CASE` holds a checkpoint that we wrote and `expected.json`, which says what must be in it; every case is checked
in the same ways, so a new kind of model (say, one with the slots of another optimizer) is only another directory:

    {"prefix": "…/model-7", "tensors": {"w": {"dtype": "float32", "shape": [2], "values": [1.0, 2.0]}}}

    optional: "trainable": names of the trainable variables;  "train": an operation to run after restoring

`DIR/graphs/CASE.pb` is a graph of ours with a saver, which `build_CASE` below builds with TensorFlow. What TensorFlow
writes goes to `DIR/theirs/CASE`, with an `expected.json` of the same form, in which "bytes" has numbers exactly, in hex.
"""

import argparse
import json
import os

import numpy
from checks import check, expect, expect_error, main
from compat import tf
from google.protobuf import json_format


class Directory:
    """The cases of a directory."""

    def __init__(self, flags):
        self.path = flags.directory

    def ours(self):
        root = os.path.join(self.path, "ours")
        cases = sorted(os.listdir(root))
        expect(cases, "%s holds no cases", root)
        for case in cases:
            with open(os.path.join(root, case, "expected.json")) as file:
                yield case, json.load(file)

    def graphs(self):
        root = os.path.join(self.path, "graphs")
        for name in sorted(os.listdir(root)):
            definition = tf.GraphDef()
            with open(os.path.join(root, name), "rb") as file:
                definition.ParseFromString(file.read())
            yield name[: -len(".pb")], definition

    def theirs(self, case):
        path = os.path.join(self.path, "theirs", case)
        os.makedirs(path)
        return path


def compare(case, name, got, expected):
    """Whether a value is the expected one, bit for bit."""
    if expected["dtype"] == "string":
        values = [value.encode() for value in expected["values"]]
        expect(list(numpy.ravel(got)) == values, "%s: %s is %r, not %r", case, name, got, values)
        return
    dtype = tf.as_dtype(expected["dtype"]).as_numpy_dtype
    wanted = numpy.array(expected["values"], dtype=dtype).reshape(expected["shape"])
    expect(got.dtype == wanted.dtype, "%s: %s is %s, not %s", case, name, got.dtype, wanted.dtype)
    expect(got.shape == wanted.shape, "%s: %s has shape %s, not %s", case, name, got.shape, wanted.shape)
    expect(got.tobytes() == wanted.tobytes(), "%s: %s is %r, not %r", case, name, got, wanted)


@check
def our_tensors_are_listed_and_read(directory):
    for case, expected in directory.ours():
        reader = tf.train.load_checkpoint(expected["prefix"])
        names = sorted(reader.get_variable_to_shape_map())
        expect(names == sorted(expected["tensors"]), "%s holds %r", case, names)
        for name, tensor in expected["tensors"].items():
            compare(case, name, numpy.asarray(reader.get_tensor(name)), tensor)


@check
def our_state_file_names_the_newest_checkpoint(directory):
    for case, expected in directory.ours():
        latest = tf.train.latest_checkpoint(os.path.dirname(expected["prefix"]))
        expect(latest == expected["prefix"], "%s: the newest checkpoint is said to be %s", case, latest)


@check
def our_meta_graph_is_imported_restored_trained_and_saved_again(directory):
    for case, expected in directory.ours():
        with tf.Graph().as_default():
            saver = tf.train.import_meta_graph(expected["prefix"] + ".meta", clear_devices=True)
            variables = {variable.op.name: variable for variable in tf.global_variables()}
            expect(sorted(variables) == sorted(expected["tensors"]), "%s: the variables are %r", case, sorted(variables))
            trainable = sorted(variable.op.name for variable in tf.trainable_variables())
            if "trainable" in expected:
                expect(trainable == sorted(expected["trainable"]), "%s: %r are trainable", case, trainable)
            with tf.Session() as session:
                saver.restore(session, expected["prefix"])
                for name, tensor in expected["tensors"].items():
                    compare(case, name, numpy.asarray(session.run(variables[name])), tensor)
                if "train" in expected:
                    before = session.run([variables[name] for name in trainable])
                    session.run(expected["train"])
                    after = session.run([variables[name] for name in trainable])
                    same = all((one == other).all() for one, other in zip(before, after))
                    expect(not same, "%s: %s changed nothing", case, expected["train"])
                write(saver, session, variables, directory.theirs("again_" + case))


@check
def a_saver_of_tensorflow_restores_ours_by_name(directory):
    for case, expected in directory.ours():
        with tf.Graph().as_default(), tf.Session() as session:
            for use_resource in (False, True):
                with tf.variable_scope("resource" if use_resource else "reference"):
                    made = {
                        name: tf.get_variable(
                            name.replace(":", "_"), tensor["shape"], tensor["dtype"], use_resource=use_resource,
                            initializer=tf.zeros_initializer() if tensor["dtype"] != "string" else constant_text(tensor))
                        for name, tensor in expected["tensors"].items()
                    }
                tf.train.Saver(made).restore(session, expected["prefix"])
                for name, tensor in expected["tensors"].items():
                    compare(case, name, numpy.asarray(session.run(made[name])), tensor)


def constant_text(tensor):
    return lambda *_, **__: tf.constant("", shape=tensor["shape"])


def build_plain(use_resource):
    with tf.device("/job:ps/task:0"):
        tf.get_variable("a", initializer=tf.constant([1.0, 2.0], name="first"), use_resource=use_resource)
    with tf.device("/job:ps/task:1"):
        tf.get_variable("scope/b", initializer=tf.constant([3], name="second"), use_resource=use_resource)
    tf.get_variable("c", initializer=tf.constant(5.0, name="third"), use_resource=use_resource)


def with_saver(use_resource, **options):
    def build():
        build_plain(use_resource)
        return tf.train.Saver(**options)

    return build


build_reference = with_saver(False)
build_resource = with_saver(True)
build_reference_sharded = with_saver(False, sharded=True)
build_resource_sharded = with_saver(True, sharded=True)


# Hints to the runtime of 2.x, which our graphs do without.
UNCOMPARED = ["_has_manual_control_dependencies", "_output_shapes"]
# Attributes that 1.15 does not know; our graphs leave them out where they have their defaults.
NEWER = {"AssignVariableOp": "validate_shape", "MergeV2Checkpoints": "allow_missing_files"}


def comparable(node):
    """A node without hints, and with constants in one of their several forms."""
    for hint in UNCOMPARED + [NEWER.get(node.op, "")]:
        node.attr.pop(hint, None)
    if "value" in node.attr:
        value = tf.make_ndarray(node.attr["value"].tensor)
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, node.attr["dtype"].type))
    return json_format.MessageToDict(node)


@check
def our_savers_have_the_nodes_of_tensorflow(directory):
    for case, ours in directory.graphs():
        with tf.Graph().as_default() as graph:
            globals()["build_" + case]()
            theirs = graph.as_graph_def()
        names = [node.name for node in theirs.node if node.name.startswith("save/")]
        ours = {node.name: node for node in ours.node}
        mine = sorted(name for name in ours if name.startswith("save/"))
        expect(mine == sorted(names), "%s: ours has the nodes %r, TensorFlow %r", case, mine, sorted(names))
        for node in theirs.node:
            if not node.name.startswith("save/"):
                continue
            one, other = (comparable(node) for node in (ours[node.name], node))
            expect(one == other, "%s: our node is\n%s\nTensorFlow's\n%s", case, one, other)


def write(saver, session, variables, path):
    """Saves, and writes down what was saved."""
    prefix = saver.save(session, os.path.join(path, "model"), global_step=3)
    tensors = {}
    for name, variable in variables.items():
        value = numpy.asarray(session.run(variable))
        dtype = variable.dtype.base_dtype.name
        values = [item.decode() for item in value.ravel()] if dtype == "string" else value.ravel().tolist()
        tensors[name] = {"dtype": dtype, "shape": list(value.shape), "values": values}
        if dtype != "string":
            tensors[name]["bytes"] = value.tobytes().hex()
    trainable = [variable.op.name for variable in tf.trainable_variables()]
    with open(os.path.join(path, "expected.json"), "w") as file:
        json.dump({"prefix": prefix, "tensors": tensors, "trainable": trainable}, file)


def save_theirs(directory, case, build):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        variables, options = build()
        saver = tf.train.Saver(**options)
        session.run(tf.global_variables_initializer())
        write(saver, session, variables, directory.theirs(case))


@check
def tensorflow_writes_for_us(directory):
    def mixed(use_resource, **options):
        def build():
            with tf.device("/cpu:0"):
                tf.get_variable("w", [3, 4], initializer=tf.random_normal_initializer(), use_resource=use_resource)
            tf.get_variable("deep/er/b", initializer=numpy.arange(5.0), use_resource=use_resource)
            tf.get_variable("count", initializer=numpy.int64(1 << 40), use_resource=use_resource, trainable=False)
            tf.get_variable("flags", initializer=numpy.array([True, False]), use_resource=use_resource, trainable=False)
            tf.get_variable("empty", initializer=numpy.zeros((0, 3), numpy.float32), use_resource=use_resource)
            return {variable.op.name: variable for variable in tf.global_variables()}, options

        return build

    def optimized():
        w = tf.get_variable("w", initializer=numpy.ones((2, 2), numpy.float32))
        step = tf.train.get_or_create_global_step()
        tf.train.AdamOptimizer().minimize(tf.reduce_sum(w * w), global_step=step, name="train")
        return {variable.op.name: variable for variable in tf.global_variables()}, {}

    for use_resource, kind in ((False, "reference"), (True, "resource")):
        save_theirs(directory, kind, mixed(use_resource))
        save_theirs(directory, kind + "_sharded", mixed(use_resource, sharded=True))
    save_theirs(directory, "optimized", optimized)


@check
def tensorflow_writes_a_partitioned_variable_for_us(directory):
    path = directory.theirs("partitioned")
    with tf.Graph().as_default(), tf.Session() as session:
        whole = numpy.arange(21.0, dtype=numpy.float32).reshape(7, 3)

        def part(shape, dtype, partition_info):
            first = partition_info.var_offset[0]
            return tf.constant(whole[first : first + shape[0]], dtype)

        tf.get_variable("p", [7, 3], initializer=part, partitioner=tf.fixed_size_partitioner(3))
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        prefix = saver.save(session, os.path.join(path, "model"), global_step=3)
    tensor = {"dtype": "float32", "shape": [7, 3], "values": whole.ravel().tolist(), "bytes": whole.tobytes().hex()}
    with open(os.path.join(path, "expected.json"), "w") as file:
        json.dump({"prefix": prefix, "tensors": {"p": tensor}}, file)


@check
def a_damaged_checkpoint_of_ours_is_refused(directory):
    case, expected = next(directory.ours())
    broken = os.path.join(directory.path, "broken")
    os.makedirs(broken)
    for name in os.listdir(os.path.dirname(expected["prefix"])):
        with open(os.path.join(os.path.dirname(expected["prefix"]), name), "rb") as file:
            content = bytearray(file.read())
        if ".data-" in name:
            content[-1] ^= 1
        with open(os.path.join(broken, name), "wb") as file:
            file.write(content)
    prefix = os.path.join(broken, os.path.basename(expected["prefix"]))
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(prefix + ".meta", clear_devices=True)
        expect_error(tf.errors.DataLossError, saver.restore, session, prefix)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True, help="where the cases are")
    main(__doc__, parser, Directory)
