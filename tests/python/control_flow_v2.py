"""Checks: loops and branches of version 2 with gradients, and lists of tensors, on servers.

Version 2 of control flow is made of functions. The gradient of a loop is another loop, and what the second needs of the
first travels in lists of tensors. Every check builds a graph twice: for a session inside this process, which is the
measure, and for the servers.
"""

import numpy as np
import tensorflow

import checks
from checks import check, check_for, expect, expect_error
from compat import IS_TF1, tf

errors = tf.errors
raw = tf.raw_ops

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"
OTHER_WORKER = "/job:worker/task:1"

tf.enable_control_flow_v2()


def evaluate(build, target, steps=1):
    """What `build` gives, in some runs: it gets the devices of variables, of computation, and of another task."""
    devices = (PS, WORKER, OTHER_WORKER) if target else (None, None, None)
    with tf.Graph().as_default() as graph, tf.Session(target) as session:
        tf.set_random_seed(11)
        fetches = build(*devices)
        session.run(tf.global_variables_initializer())
        results = [session.run(fetches) for _ in range(steps)]
        return results, all_op_types(graph)


def all_op_types(graph):
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes}


def flat(value):
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


def compare(cluster, build, steps=1, needs=(), tolerance=1e-5):
    """Runs on the servers and here; both must give the same, by the ops the check is about."""
    got, ops = evaluate(build, cluster.worker_target(), steps)
    expected, _ = evaluate(build, "", steps)
    expect(set(needs) <= ops, "the graph has no %s: %s", set(needs) - ops, sorted(ops))
    got, expected = flat(got), flat(expected)
    expect(len(got) == len(expected), "%d results, expected %d", len(got), len(expected))
    for one, other in zip(got, expected):
        expect(one.shape == other.shape, "shape %s, expected %s", one.shape, other.shape)
        if one.dtype.kind == "f":
            close = np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            close = (one == other).all()
        expect(close, "got %s, expected %s", one, other)


def powers(variables, computation, _):
    with tf.device(variables):
        x = tf.get_variable("x", initializer=[0.5, -1.5, 2.0], use_resource=True)
    with tf.device(computation):
        _, product, total = tf.while_loop(
            lambda i, p, s: i < 5,
            lambda i, p, s: [i + 1, p * tf.sin(x), s + tf.reduce_sum(tf.square(p))],
            [0, x, 0.0],
        )
        return [product, total] + tf.gradients([tf.reduce_sum(product), total], [x])


def data_dependent(variables, computation, _):
    with tf.device(computation):
        x = tf.constant(0.3)
        y = tf.while_loop(lambda a: a < 100.0, lambda a: a * a + x, [x + 1.0])
        first = tf.gradients(y, [x])[0]
        return [y, first]


def second_derivative(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([0.4, 1.2])
        _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * tf.tanh(x) + x], [0, x])
        first = tf.gradients(y, [x])[0]
        second = tf.gradients(first, [x])[0]
        return [y, first, second]


def nested(variables, computation, _):
    with tf.device(computation):
        x, w = tf.constant(1.1), tf.constant(0.9)

        def outer(i, a):
            _, b = tf.while_loop(
                lambda j, b: j < i + 1, lambda j, b: [j + 1, b * w + tf.sin(a)], [0, a]
            )
            return [i + 1, b * x]

        _, y = tf.while_loop(lambda i, a: i < 3, outer, [0, x])
        return [y] + tf.gradients(y, [x, w])


def branch_in_loop(variables, computation, _):
    with tf.device(computation):
        x, w = tf.constant(1.2), tf.constant(0.7)

        def body(i, a):
            return [i + 1, tf.cond(a > 1.0, lambda: a * w * w, lambda: a + tf.square(x))]

        _, y = tf.while_loop(lambda i, a: i < 6, body, [0, x])
        return [y] + tf.gradients(y, [x, w])


def loop_in_branch(variables, computation, _):
    with tf.device(computation):
        x = tf.constant(1.3)

        def many():
            return tf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, a * x], [0, x])[1]

        y = tf.cond(x > 1.0, many, lambda: x * 3.0)
        z = tf.cond(x > 2.0, many, lambda: x * 3.0)
        return [y, z] + tf.gradients(y, [x]) + tf.gradients(z, [x])


def branches(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([1.0, 2.0])
        w = tf.constant(3.0)
        outputs = []
        for limit in (0.0, 5.0):
            y = tf.cond(x[0] > limit, lambda: tf.square(x) * w, lambda: tf.exp(x) / w)
            outputs += [y] + tf.gradients(y, [x, w])
        return outputs


def gathered_rows(variables, computation, _):
    with tf.device(variables):
        table = tf.get_variable("table", initializer=np.arange(12, dtype=np.float32).reshape(4, 3), use_resource=True)
    with tf.device(computation):
        total = tf.while_loop(
            lambda i, s: i < 6,
            lambda i, s: [i + 1, s + tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, [i % 4, 1])))],
            [0, 0.0],
        )[1]
        gradient = tf.gradients(total, [table])[0]
        return [total, tf.convert_to_tensor(gradient)]


def arrays(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        read = tf.TensorArray(tf.float32, size=3).unstack(x)
        written = tf.TensorArray(tf.float32, size=3)

        def body(i, state, out):
            state = tf.tanh(state + read.read(i))
            return [i + 1, state, out.write(i, state * 2.0)]

        _, last, out = tf.while_loop(lambda i, *_: i < 3, body, [0, tf.zeros([2]), written])
        stacked = out.stack()
        return [last, stacked, out.size(), out.gather([2, 0])] + tf.gradients([stacked, last], [x])


def growing_array(variables, computation, _):
    with tf.device(computation):
        x = tf.constant(1.5)
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False, element_shape=[])
        _, array = tf.while_loop(lambda i, a: i < 7, lambda i, a: [i + 1, a.write(i, x * tf.cast(i, tf.float32))], [0, array])
        return [array.stack(), array.size(), array.read(3)] + tf.gradients(array.stack(), [x])


def split_array(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0])
        array = tf.TensorArray(tf.float32, size=3, infer_shape=False).split(x, [1, 0, 4])
        squares = tf.TensorArray(tf.float32, size=3, infer_shape=False, element_shape=[None])
        for index in range(3):
            squares = squares.write(index, tf.square(array.read(index)))
        joined = squares.concat()
        return [joined] + tf.gradients(joined, [x])


def scattered_array(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        array = tf.TensorArray(tf.float32, size=4, element_shape=[2]).scatter([3, 1], x * x)
        y = array.stack()
        return [y] + tf.gradients(y, [x])


def mapped(variables, computation, _):
    with tf.device(computation):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0], [0.5, 0.25]])
        squares = tf.map_fn(lambda row: tf.reduce_prod(row) * row, x)
        sums = tf.scan(lambda a, row: a * 0.5 + row, x)
        folded = tf.foldl(lambda a, row: a * row, x)
        return [squares, sums, folded] + tf.gradients([squares, sums, folded], [x])


def strings_in_lists(variables, computation, _):
    with tf.device(computation):
        words = tf.constant(["a", "bb", "ccc"])
        array = tf.TensorArray(tf.string, size=3)
        _, array = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: [i + 1, a.write(2 - i, tf.string_join([words[i], "!"]))], [0, array]
        )
        return array.stack()


def across_tasks(variables, computation, elsewhere):
    """The body of the loop is on two tasks, so that its lists are as well."""
    with tf.device(variables):
        w = tf.get_variable("w", initializer=[[0.5, -0.3], [0.2, 0.8]], use_resource=True)
    with tf.device(computation):
        x = tf.constant([[1.0, 2.0]])

        def body(i, h):
            with tf.device(elsewhere):
                product = tf.matmul(h, w)
            return [i + 1, tf.tanh(product)]

        _, h = tf.while_loop(lambda i, h: i < 4, body, [0, x])
        return [h] + tf.gradients(h, [w, x])


def lists_between_tasks(variables, computation, elsewhere):
    """A list is made on one task, changed on another, and read on the first."""
    with tf.device(computation):
        items = raw.TensorListReserve(element_shape=tf.constant([-1]), num_elements=3, element_dtype=tf.float32)
        items = raw.TensorListSetItem(input_handle=items, index=1, item=[1.0, 2.0])
        outer = raw.EmptyTensorList(element_shape=-1, max_num_elements=5, element_dtype=tf.variant)
    with tf.device(elsewhere):
        items = raw.TensorListPushBack(input_handle=items, tensor=[3.0, 4.0])
        outer = raw.TensorListPushBack(input_handle=outer, tensor=items)
    with tf.device(variables):
        inner = raw.TensorListGetItem(input_handle=outer, index=0, element_shape=-1, element_dtype=tf.variant)
    with tf.device(computation):
        stacked = raw.TensorListStack(input_handle=inner, element_shape=tf.constant([2]), element_dtype=tf.float32)
        return [stacked, raw.TensorListLength(input_handle=inner)]


def recurrent(variables, computation, _):
    with tf.device(variables):
        cell_scope = tf.get_variable("w", initializer=np.linspace(-0.5, 0.5, 40).reshape(5, 8).astype(np.float32), use_resource=True)
    with tf.device(computation):
        inputs = tf.constant(np.sin(np.arange(2 * 4 * 3)).reshape(2, 4, 3).astype(np.float32))
        lengths = tf.constant([4, 2])
        array = tf.TensorArray(tf.float32, size=4).unstack(tf.transpose(inputs, [1, 0, 2]))
        output = tf.TensorArray(tf.float32, size=4)

        def body(t, c, h, out):
            gates = tf.matmul(tf.concat([array.read(t), h], 1), cell_scope)
            i, j, f, o = tf.split(gates, 4, axis=1)
            new_c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
            new_h = tf.sigmoid(o) * tf.tanh(new_c)
            runs = tf.expand_dims(t < lengths, 1)
            runs = tf.tile(runs, [1, 2])
            return t + 1, tf.where(runs, new_c, c), tf.where(runs, new_h, h), out.write(t, new_h)

        zeros = tf.zeros([2, 2])
        _, c, h, output = tf.while_loop(lambda t, *_: t < 4, body, [0, zeros, zeros, output])
        loss = tf.reduce_sum(tf.square(h)) + tf.reduce_sum(output.stack())
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return [tf.identity(loss), tf.identity(c)]


class Cell:
    """A long short-term memory cell: TensorFlow's own is part of Keras 2, which not every TensorFlow has."""

    state_size = (4, 4)
    output_size = 4

    def __init__(self, variables, inputs):
        with tf.device(variables):
            shape = [inputs + self.output_size, 4 * self.output_size]
            values = np.linspace(-0.6, 0.6, shape[0] * shape[1]).reshape(shape).astype(np.float32)
            self.weights = tf.get_variable("kernel", initializer=values, use_resource=True)
            self.biases = tf.get_variable("bias", initializer=np.full(shape[1], 0.1, np.float32), use_resource=True)

    def zero_state(self, batch_size, dtype):
        return tuple(tf.zeros([batch_size, size], dtype) for size in self.state_size)

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return self.zero_state(batch_size, dtype)

    def __call__(self, inputs, state, scope=None):
        c, h = state
        gates = tf.matmul(tf.concat([inputs, h], 1), self.weights) + self.biases
        i, j, f, o = tf.split(gates, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (c, h)


def dynamic_rnn(variables, computation, _):
    with tf.device(computation):
        inputs = tf.constant(np.cos(np.arange(3 * 5 * 2)).reshape(3, 5, 2).astype(np.float32))
        cell = Cell(variables, 2)
        outputs, state = tf.nn.dynamic_rnn(cell, inputs, sequence_length=[5, 2, 4], dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(outputs)) + tf.reduce_sum(state[0])
        gradients = tf.gradients(loss, tf.trainable_variables())
        with tf.control_dependencies(gradients):
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
        with tf.control_dependencies([train]):
            return [tf.identity(loss)] + [tf.identity(gradient) for gradient in gradients]


CASES = dict(
    powers=(powers, ["TensorListPushBack", "TensorListPopBack"]),
    data_dependent=(data_dependent, ["TensorListPopBack"]),
    second_derivative=(second_derivative, ["TensorListPopBack"]),
    nested=(nested, ["TensorListPopBack"]),
    branch_in_loop=(branch_in_loop, []),
    loop_in_branch=(loop_in_branch, ["TensorListPopBack"]),
    branches=(branches, []),
    gathered_rows=(gathered_rows, ["TensorListPopBack"]),
    arrays=(arrays, ["TensorListFromTensor", "TensorListStack", "TensorListSetItem", "TensorListGetItem"]),
    growing_array=(growing_array, ["TensorListReserve", "TensorListStack"]),
    split_array=(split_array, ["TensorListSplit", "TensorListConcatV2"]),
    scattered_array=(scattered_array, []),
    mapped=(mapped, ["TensorListStack"]),
    strings_in_lists=(strings_in_lists, ["TensorListStack"]),
    across_tasks=(across_tasks, ["TensorListPopBack"]),
    recurrent=(recurrent, ["TensorListPopBack"]),
    dynamic_rnn=(dynamic_rnn, ["TensorListPopBack", "TensorListStack"]),
)
if IS_TF1:
    # TensorFlow 1.15 writes none of these, or other ops.
    for name in ("split_array", "growing_array", "second_derivative"):
        del CASES[name]
else:
    CASES["lists_between_tasks"] = (lists_between_tasks, ["TensorListPushBack"])


@check_for(**CASES)
def control_flow_gives_what_tensorflow_gives(cluster, case):
    build, needs = case
    compare(cluster, build, steps=3, needs=needs)


@check
def functions_with_loops_have_gradients(cluster):
    function = tf.function if hasattr(tf, "function") else tensorflow.function

    def build(variables, computation, _):
        @function
        def repeated(x, n):
            for _ in tensorflow.range(n):
                x = tensorflow.sin(x) * 1.5
            return x

        with tf.device(computation):
            x = tf.constant([0.3, 0.7])
            y = repeated(x, tf.constant(6))
            return [y] + tf.gradients(y, [x])

    compare(cluster, build, needs=["TensorListPopBack"])


@check
def a_long_loop_takes_time_in_proportion(cluster):
    """Twenty thousand pushes and pops: a list that is copied each time would need gigabytes of copies."""
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(WORKER):
            x = tf.constant(1.0)
            _, y = tf.while_loop(
                lambda i, a: i < 20000, lambda i, a: [i + 1, a * tf.cos(x * 1e-3)], [0, x],
                maximum_iterations=20000,
            )
            gradient = tf.gradients(y, [x])[0]
        value, slope = session.run([y, gradient])
        expected = np.cos(1e-3) ** 20000
        expect(abs(value - expected) < 1e-3, "got %s, expected %s", value, expected)
        expect(np.isfinite(slope), "the slope is %s", slope)


@check
def wrong_uses_of_lists_are_errors(cluster):
    if IS_TF1:
        return "TensorFlow 1.15 has no raw ops"
    empty = lambda shape: raw.EmptyTensorList(element_shape=shape, max_num_elements=1, element_dtype=tf.float32)
    with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
        index = tf.placeholder(tf.int32, [])
        for wrong in (
            raw.TensorListGetItem(input_handle=empty(-1), index=index, element_shape=-1, element_dtype=tf.float32),
            raw.TensorListPopBack(input_handle=empty(-1), element_shape=-1, element_dtype=tf.float32)[1],
            raw.TensorListStack(input_handle=empty(-1), element_shape=-1, element_dtype=tf.float32),
            raw.TensorListLength(input_handle=raw.TensorListReserve(
                element_shape=-1, num_elements=index - 1, element_dtype=tf.float32)),
            raw.TensorListLength(input_handle=raw.OptionalNone()),
        ):
            expect_error(errors.InvalidArgumentError, session.run, wrong, {index: 0})


if __name__ == "__main__":
    checks.main(__doc__)
