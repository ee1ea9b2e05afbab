"""Lengths of several tensors under one name."""

import numpy as np


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.float32, [None, 3], name="y")
    made = tf.debugging.assert_shapes({x: ("N", 2)}, name="one")
    both = tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("N", 3))])
    try:
        tf.debugging.assert_shapes({x: ("N", 3)}, message="three wide", name="wrong")
        check("said", "nothing")
    except ValueError as error:
        check("said", str(error))
    with tf.Session() as session:
        feed = {x: np.ones([2, 2]), y: np.ones([2, 3])}
        session.run([made, both], feed)
        try:
            session.run(both, {x: np.ones([2, 2]), y: np.ones([1, 3])})
            check("run", "nothing")
        except tf.errors.InvalidArgumentError as error:
            check("run", "must have size" in error.message)
    check("names", [made.name, both.name])
