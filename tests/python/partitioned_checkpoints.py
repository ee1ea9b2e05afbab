"""Checkpoints of a table in parts, in the middle of training, between us and TensorFlow, from any division to any other.

    partitioned_checkpoints.py --directory DIR

`DIR/ours/LAYOUT-KIND` holds `model-3.*`, saved by us after three steps from a table that is divided as LAYOUT says, and
`losses.json`, our losses of the three steps that followed. TensorFlow restores it into every layout and must get the same losses.
Then it trains from the beginning in each layout, saves to `DIR/theirs/LAYOUT-KIND`, and writes down the losses for us to reach.
"""

import argparse
import json
import os

import numpy
from checks import check, expect, main
from compat import tf

STEPS = 3

# How the table is divided: along which axis, in how many parts. `whole` is one variable without parts.
LAYOUTS = {"whole": None, "one": (0, 1), "two": (0, 2), "three": (0, 3), "columns": (1, 2)}
KINDS = ["reference", "resource"]
CASES = [(layout, kind) for layout in sorted(LAYOUTS) for kind in KINDS]


class Directory:
    def __init__(self, flags):
        self.path = flags.directory

    def case(self, side, layout, kind):
        return os.path.join(self.path, side, "%s-%s" % (layout, kind))


def spread(shape):
    count = int(numpy.prod(shape))
    return (((numpy.arange(count) * 37) % 101 - 50) / 100.0).astype(numpy.float32).reshape(shape)


def part_of_the_table(shape, dtype=None, partition_info=None):
    """The values of `spread` that belong to a part."""
    table = spread([7, 4])
    if partition_info is None:
        return table
    rows, cols = partition_info.var_offset
    return table[rows:rows + shape[0], cols:cols + shape[1]]


def build(layout, kind):
    """The model of `partitioned.rs`: rows of a divided table through a layer, trained by Adam."""
    resource = kind == "resource"
    division = LAYOUTS[layout]
    partitioner = tf.fixed_size_partitioner(division[1], axis=division[0]) if division else None
    table = tf.get_variable("table", [7, 4], initializer=part_of_the_table, partitioner=partitioner, use_resource=resource)
    weight = tf.get_variable("weight", initializer=spread([4, 2]), use_resource=resource)
    ids = tf.constant([1, 4, 6, 3, 1])
    if division and division[0] == 0:
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
    else:
        rows = tf.gather(tf.convert_to_tensor(table), ids)
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, weight) - tf.constant(spread([5, 2]) * 2)))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    return loss, train, step


def losses(session, loss, train):
    result = []
    for _ in range(STEPS):
        result.append(float(session.run(loss)))
        session.run(train)
    return result


@check
def every_layout_of_tensorflow_goes_on_from_every_layout_of_ours(directory):
    for saved, saved_kind in CASES:
        path = directory.case("ours", saved, saved_kind)
        prefix = os.path.join(path, "model-%d" % STEPS)
        with open(os.path.join(path, "losses.json")) as file:
            ours = json.load(file)
        shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        for name in ("table", "table/Adam", "table/Adam_1"):
            expect(shapes.get(name) == [7, 4], "%s: %s has the shape %r in %r", saved, name, shapes.get(name), shapes)
        expect(not any("part_" in name for name in shapes), "%s: parts have names of their own: %r", saved, sorted(shapes))
        for layout, kind in CASES:
            with tf.Graph().as_default(), tf.Session() as session:
                loss, train, step = build(layout, kind)
                tf.train.Saver().restore(session, prefix)
                expect(session.run(step) == STEPS, "%s: the global step is not %d", saved, STEPS)
                theirs = losses(session, loss, train)
            expect(
                numpy.allclose(ours, theirs, rtol=1e-5, atol=1e-6),
                "%s-%s into %s-%s: %r, ours %r", saved, saved_kind, layout, kind, theirs, ours)


@check
def tensorflow_saves_every_layout_for_us(directory):
    for layout, kind in CASES:
        path = directory.case("theirs", layout, kind)
        os.makedirs(path)
        with tf.Graph().as_default(), tf.Session() as session:
            loss, train, _ = build(layout, kind)
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
