"""Checkpoints in the middle of training, for every optimizer: TensorFlow goes on from ours, and we from TensorFlow's.

    optimizer_checkpoints.py --directory DIR

`DIR/ours/CASE` holds `model-3.*`, saved by us after three steps, and `losses.json`, our losses of the three steps that
followed. TensorFlow restores it and must get the same losses. Then it trains from the beginning, saves after three steps to
`DIR/theirs/CASE`, and writes down the losses of the next three for us to reach.
"""

import argparse
import json
import os

import numpy
from checks import check, expect, main
from compat import tf

STEPS = 3

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.05, momentum=0.5),
    "rmsprop_centered": lambda: tf.train.RMSPropOptimizer(0.05, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
}


class Directory:
    def __init__(self, flags):
        self.path = flags.directory

    def cases(self):
        cases = sorted(os.listdir(os.path.join(self.path, "ours")))
        expect(len(cases) >= 2 * len(OPTIMIZERS), "only %d cases", len(cases))
        return cases


def build(case):
    """The model of `optimizers.rs`: rows of an embedding through a layer."""
    name, kind = case.rsplit("-", 1)
    resource = kind == "resource"

    def spread(shape):
        count = int(numpy.prod(shape))
        return (((numpy.arange(count) * 37) % 101 - 50) / 100.0).astype(numpy.float32).reshape(shape)

    rows = tf.get_variable("rows", initializer=spread([6, 3]), use_resource=resource)
    weight = tf.get_variable("layer/weight", initializer=spread([3, 2]), use_resource=resource)
    bias = tf.get_variable("layer/bias", initializer=numpy.zeros([2], numpy.float32), use_resource=resource)
    ids = tf.constant([1, 4, 1, 3])
    wanted = tf.constant(spread([4, 2]) * 2)
    output = tf.matmul(tf.gather(rows, ids), weight) + bias
    loss = tf.reduce_mean(tf.square(output - wanted))
    step = tf.train.get_or_create_global_step()
    train = OPTIMIZERS[name]().minimize(loss, global_step=step)
    return loss, train, step


def losses(session, loss, train):
    result = []
    for _ in range(STEPS):
        result.append(float(session.run(loss)))
        session.run(train)
    return result


@check
def tensorflow_goes_on_from_our_checkpoints(directory):
    for case in directory.cases():
        path = os.path.join(directory.path, "ours", case)
        with open(os.path.join(path, "losses.json")) as file:
            ours = json.load(file)
        with tf.Graph().as_default(), tf.Session() as session:
            loss, train, step = build(case)
            saver = tf.train.Saver()
            prefix = os.path.join(path, "model-%d" % STEPS)
            saved = sorted(tf.train.load_checkpoint(prefix).get_variable_to_shape_map())
            names = sorted(variable.op.name for variable in tf.global_variables())
            expect(saved == names, "%s: ours holds %r, TensorFlow's variables are %r", case, saved, names)
            saver.restore(session, prefix)
            expect(session.run(step) == STEPS, "%s: the global step is not %d", case, STEPS)
            theirs = losses(session, loss, train)
        expect(numpy.allclose(ours, theirs, rtol=1e-5, atol=1e-6), "%s: %r, ours %r", case, theirs, ours)


@check
def tensorflow_saves_for_us(directory):
    for case in directory.cases():
        path = os.path.join(directory.path, "theirs", case)
        os.makedirs(path)
        with tf.Graph().as_default(), tf.Session() as session:
            loss, train, _ = build(case)
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            losses(session, loss, train)
            saver.save(session, os.path.join(path, "model"), global_step=STEPS)
            with open(os.path.join(path, "losses.json"), "w") as file:
                json.dump(losses(session, loss, train), file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True, help="where the cases are")
    main(__doc__, parser, Directory)
