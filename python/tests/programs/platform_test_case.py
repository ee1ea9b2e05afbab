"""Assertions of test cases: what holds, and the words when it does not."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    import numpy as np

    class Case(tf.test.TestCase):
        def runTest(self):
            pass

    case = Case()

    def holds(act):
        try:
            act()
        except Exception as error:
            return type(error).__name__
        return "holds"

    point = tf.constant([1.0, 2.0])
    with tf.Session().as_default():
        for number, act in enumerate([
            lambda: case.assertAllClose([1.0, 2.0], [1.0, 2.1]), lambda: case.assertAllClose([1.0, 2.0], [1.0, 2.0000001]),
            lambda: case.assertAllClose({"a": 1.0}, {"a": 2.0}), lambda: case.assertAllClose({"a": [1.0]}, {"a": [1.0]}),
            lambda: case.assertAllClose([1.0], [1.0, 2.0]), lambda: case.assertAllEqual([1, 2], [1, 3]), lambda: case.assertAllEqual([1, 2], [1, 2, 3]),
            lambda: case.assertAllEqual([float("nan")], [float("nan")]), lambda: case.assertNear(1, 2, 0.5), lambda: case.assertNear(1, 1.2, 0.5),
            lambda: case.assertShapeEqual(np.zeros(2), point), lambda: case.assertShapeEqual(np.zeros(3), point), lambda: case.assertShapeEqual([1], point),
            lambda: case.assertAllInRange([1, 5], 0, 3), lambda: case.assertAllInRange([1, 3], 0, 3), lambda: case.assertAllInSet([1, 2], [1, 2, 3]),
            lambda: case.assertAllGreater([1, 2], 0), lambda: case.assertAllLess([1, 2], 2), lambda: case.assertNotAllClose([1.0], [1.0]),
            lambda: case.assertAllCloseAccordingToType(np.float16([1.0]), np.float16([1.0005])), lambda: case.assertArrayNear([1.0], [1.1], 0.2),
            lambda: case.assertProtoEquals("trace_level: FULL_TRACE", tf.RunOptions(trace_level=3)),
            lambda: case.assertProtoEquals("trace_level: NO_TRACE", tf.RunOptions(trace_level=3)), lambda: case.assertStartsWith("abc", "ab"),
            lambda: case.assertStartsWith("abc", "b"), lambda: case.assertLen([1], 2), lambda: case.assertEmpty([]), lambda: case.assertBetween(3, 1, 2),
            lambda: case.assertAllEqual(point, [1, 2]), lambda: case.assertAllClose(point * 2, [2.0, 4.0]), lambda: case.assertItemsEqual([1, 2], [2, 1]),
        ]):
            check("assertion %d" % number, holds(act))
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]], name="x")
        y = tf.square(x, name="y")
        error = tf.test.compute_gradient_error(x, [2, 2], y, [2, 2], x_init_value=np.array([[1.0, 2.0], [3.0, 4.0]]))
        check("gradient", bool(error < 1e-2))
        check("jacobian", tf.test.compute_gradient(x, [2, 2], y, [2, 2], x_init_value=np.array([[1.0, 2.0], [3.0, 4.0]]))[0])
    check("machine", [tf.test.is_gpu_available(), tf.test.gpu_device_name(), tf.test.is_built_with_cuda()])
