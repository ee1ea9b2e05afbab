import numpy as np


def program(tf, check):
    calls = []

    def add(a, b):
        calls.append(type(a).__name__)
        return a + b

    def fail(a):
        raise ValueError("bad value %s" % a)

    def stop():
        raise StopIteration()

    x = tf.placeholder(tf.float32, [None], name="x")
    total = tf.py_func(add, [x, tf.constant([1.0, 2.0])], tf.float32)
    several = tf.py_func(lambda a: (a * 2, np.array([b"one", b"two"], dtype=object), np.int64(3)), [x], [tf.float32, tf.string, tf.int64], stateful=False, name="several")
    scalar = tf.py_func(lambda a: a + np.float32(1), [tf.constant(1.0)], tf.float32)
    text = tf.numpy_function(lambda a: a.upper(), [tf.constant(b"abc")], tf.string)
    effect = tf.py_func(lambda: calls.append("effect"), [], [])
    failing = tf.py_func(fail, [tf.constant(3)], tf.int32)
    ending = tf.py_func(stop, [], tf.int32)
    wrong = tf.py_func(lambda: 1.0, [], tf.float32)
    check("shape", str(total.shape))
    with tf.Session() as session:
        check("total", session.run(total, {x: [3.0, 4.0]}))
        check("several", session.run(several, {x: [1.5]}))
        check("scalar", session.run(scalar))
        check("text", session.run(text))
        session.run(effect)
        check("calls", calls)
        try:
            session.run(failing)
        except tf.errors.InvalidArgumentError as error:
            check("failing", [error.message.startswith("ValueError: bad value 3"), "Traceback" in error.message])
        try:
            session.run(ending)
        except tf.errors.OutOfRangeError:
            check("ending", "OutOfRangeError")
        try:
            session.run(wrong)
        except tf.errors.InvalidArgumentError as error:
            check("wrong", error.message.split("\n")[0].replace("pyfunc_%s" % error.op.get_attr("token").decode().split("_")[1], "pyfunc"))
    mapped = tf.map_fn(lambda e: tf.py_func(lambda v: v * np.float32(10), [e], tf.float32), tf.constant([1.0, 2.0]))
    with tf.Session() as session:
        check("in a loop", session.run(mapped))
