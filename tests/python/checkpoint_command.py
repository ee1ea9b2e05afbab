"""`tensorfleet checkpoint` on what TensorFlow saves: numpy must find in an export just what TensorFlow put in.

    checkpoint_command.py --directory DIR --program TENSORFLEET
"""

import argparse
import json
import os
import subprocess

import numpy
from checks import check, expect, main
from compat import tf

PLAIN = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "complex64",
         "complex128"]


class Command:
    """The program, and a directory to work in."""

    def __init__(self, flags):
        self.program = flags.program
        self.path = flags.directory

    def run(self, *arguments):
        return subprocess.run([self.program, "checkpoint", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60, check=False)

    def succeed(self, *arguments):
        done = self.run(*arguments)
        expect(done.returncode == 0, "%r: %s", arguments, done.stderr.decode())
        return done

    def exported(self, prefix, *arguments):
        out = os.path.join(self.path, "out.npz")
        done = self.succeed("export", prefix, out, "--force", *arguments)
        with numpy.load(out) as arrays:
            return {name: arrays[name] for name in arrays.files}, done.stderr.decode()


def values():
    """An array of each dtype."""
    arrays = {"v/" + dtype: numpy.arange(6).reshape(2, 3).astype(dtype) for dtype in PLAIN}
    arrays["v/scalar"] = numpy.float32(2.5)
    arrays["v/empty"] = numpy.zeros((0, 3), numpy.float32)
    arrays["v/not_finite"] = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 0.0], numpy.float32)
    return arrays


def save(path, arrays, **options):
    """Saves arrays as variables; the prefix."""
    os.makedirs(path)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("/cpu:0"):
            for name, array in arrays.items():
                tf.get_variable(name, initializer=tf.constant(array), trainable=False)
        session.run(tf.global_variables_initializer())
        return tf.train.Saver(**options).save(session, os.path.join(path, "model.ckpt"), global_step=7)


@check
def numpy_reads_every_dtype_bit_for_bit(command):
    for sharded in (False, True):
        arrays = values()
        prefix = save(os.path.join(command.path, "plain%d" % sharded), arrays, sharded=sharded)
        exported, notes = command.exported(prefix)
        expect(notes == "", "notes: %s", notes)
        expect(sorted(exported) == sorted(arrays), "exported %r", sorted(exported))
        for name, array in arrays.items():
            got = exported[name]
            expect(got.dtype == array.dtype and got.shape == array.shape, "%s is %s %s", name, got.dtype, got.shape)
            expect(got.tobytes() == array.tobytes(), "%s is %r, not %r", name, got, array)


@check
def brain_floats_and_strings_are_converted(command):
    brain = tf.bfloat16.as_numpy_dtype
    arrays = {"brain": numpy.array([1.5, -2.0, 3e38], brain), "texts": numpy.array([b"", b"abc", b"\xff\x00x"])}
    exported, notes = command.exported(save(os.path.join(command.path, "converted"), arrays))
    expect("bfloat16" in notes, "notes: %s", notes)
    expect(exported["brain"].dtype == numpy.float32, "brain is %s", exported["brain"].dtype)
    expect((exported["brain"] == arrays["brain"].astype(numpy.float32)).all(), "brain is %r", exported["brain"])
    expect(list(exported["texts"]) == [b"", b"abc", b"\xff\x00x"], "texts are %r", exported["texts"])


@check
def partitioned_variables_are_put_together(command):
    path = os.path.join(command.path, "partitioned")
    os.makedirs(path)
    whole = numpy.arange(21.0, dtype=numpy.float32).reshape(7, 3)
    with tf.Graph().as_default(), tf.Session() as session:

        def part(shape, dtype, partition_info):
            first = partition_info.var_offset[0]
            return tf.constant(whole[first : first + shape[0]], dtype)

        tf.get_variable("p", [7, 3], initializer=part, partitioner=tf.fixed_size_partitioner(3))
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, os.path.join(path, "model.ckpt"))
    exported, _ = command.exported(prefix)
    expect((exported["p"] == whole).all(), "p is %r", exported["p"])
    shown = json.loads(command.succeed("show", prefix, "--json").stdout)
    expect(shown["tensors"][0]["slices"] == ["0,3:0,3", "3,2:0,3", "5,2:0,3"], "shown: %r", shown)
    expect(b"in 3 parts" in command.succeed("show", path).stdout, "the parts are not told")


@check
def tensors_are_shown_as_tensorflow_lists_them(command):
    prefix = save(os.path.join(command.path, "shown"), values())
    shown = json.loads(command.succeed("show", prefix, "--json").stdout)
    theirs = [(name, list(shape)) for name, shape in tf.train.list_variables(prefix)]
    ours = [(tensor["name"], tensor["shape"]) for tensor in shown["tensors"]]
    expect(ours == theirs, "we show %r, TensorFlow %r", ours, theirs)
    listed = json.loads(command.succeed("ls", os.path.dirname(prefix), "--json").stdout)
    expect(listed["newest"] == prefix and listed["checkpoints"][0]["step"] == 7, "listed: %r", listed)


@check
def differences_are_those_that_numpy_finds(command):
    arrays = values()
    first = save(os.path.join(command.path, "first"), arrays)
    arrays["v/float64"] = arrays["v/float64"] + numpy.array([[0.0, 0.5, 0.0], [0.0, 0.0, -0.25]])
    second = save(os.path.join(command.path, "second"), arrays)
    expect(command.run("diff", first, first).returncode == 0, "a checkpoint differs from itself")
    done = command.run("diff", first, second, "--json")
    expect(done.returncode == 1, "exit code %d", done.returncode)
    found = json.loads(done.stdout)
    expect(len(found["changed"]) == 1, "found %r", found)
    change = found["changed"][0]
    expect((change["name"], change["changed"], change["max_abs"], change["mean_abs"]) == ("v/float64", 2, 0.5, 0.125),
           "found %r", change)


@check
def checkpoints_of_objects_are_read(command):
    path = os.path.join(command.path, "objects")
    with tf.Graph().as_default(), tf.Session() as session:
        kernel = tf.Variable([[1.0, 2.0]], name="kernel", use_resource=True)
        session.run(kernel.initializer)
        prefix = tf.train.Checkpoint(kernel=kernel).save(os.path.join(path, "ckpt"), session=session)
    exported, _ = command.exported(prefix, "--filter", "*VARIABLE_VALUE")
    expect((exported["kernel/.ATTRIBUTES/VARIABLE_VALUE"] == [[1.0, 2.0]]).all(), "exported %r", exported)
    shown = command.succeed("show", path).stdout.decode()
    expect("_CHECKPOINTABLE_OBJECT_GRAPH" in shown, "shown: %s", shown)


@check
def the_old_format_is_named_as_such(command):
    try:
        prefix = save(os.path.join(command.path, "old"), {"v": numpy.float32(1.0)}, write_version=tf.train.SaverDef.V1)
    except Exception as error:  # Later versions may no longer write it.
        return "TensorFlow does not write V1: %s" % type(error).__name__
    done = command.run("show", prefix)
    expect(done.returncode == 1 and b"V1 format" in done.stderr, "%d: %s", done.returncode, done.stderr.decode())


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--directory", required=True)
    flags.add_argument("--program", required=True)
    main(__doc__, flags, Command)
