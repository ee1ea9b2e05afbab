"""Checks: tensors of every kind and size on their way between tasks and to the client, and graphs of some size."""

import threading

import numpy as np

import checks
from checks import check, check_for, expect
from cluster import no_rewrites
from compat import tf
from wire_values import SHAPES, dtypes, equal, numbers

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"
OTHER_WORKER = "/job:worker/task:1"

@check_for(**dtypes())
def dtype_travels(cluster, case):
    """From the client to a worker, a ps, another worker and back; as a feed, and as a constant in the graph."""
    with tf.Graph().as_default(), tf.Session(cluster.worker_target(), config=no_rewrites()) as session:
        travels = []
        for shape in SHAPES:
            value = numbers(case, shape)
            with tf.device(WORKER):
                fed = tf.placeholder(case, shape)
                constant = tf.constant(value, case, shape)
            for origin in (fed, constant):
                with tf.device(PS):
                    there = tf.expand_dims(origin, 0)
                with tf.device(OTHER_WORKER):
                    travels.append((fed, value, tf.squeeze(there, [0])))
        feeds = {fed: value for fed, value, _ in travels}
        results = session.run([result for _, _, result in travels], feeds)
        for (_, value, _), result in zip(travels, results):
            expect(equal(value, result), "sent %r, got %r", value, result)


@check_for(**{name: dtype for name, dtype in dtypes().items() if name in ("float32", "int64", "string", "bool")})
def dtype_stays_in_variables(cluster, case):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        for use_resource in (False, True):
            for index, shape in enumerate(SHAPES):
                value = numbers(case, shape)
                with tf.device(PS):
                    name = "stays_%s_%s_%d" % (case.name, use_resource, index)
                    initial = tf.placeholder_with_default(value, shape)
                    variable = tf.Variable(initial, name=name, use_resource=use_resource)
                with tf.device(OTHER_WORKER):
                    read = tf.identity(variable)
                session.run(variable.initializer)
                result = session.run(read)
                expect(equal(value, result), "stored %r, read %r", value, result)


@check
def large_tensor_travels_both_ways(cluster):
    """120 MB to a variable on a ps, through a worker, and back to the client."""
    count = 30 * 1000 * 1000
    values = np.arange(count, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        fed = tf.placeholder(tf.float32, [count])
        with tf.device(PS):
            stored = tf.Variable(tf.zeros([count]), name="large", use_resource=True)
            assign = stored.assign(fed, read_value=False)
        with tf.device(OTHER_WORKER):
            doubled = stored * 2.0
        session.run(assign, {fed: values})
        expect(np.array_equal(session.run(stored), values), "the variable came back otherwise")
        expect(np.array_equal(session.run(doubled), values * 2), "the worker saw other values")
        session.run(stored.assign(tf.zeros([count]), read_value=False))
    cluster.forget_variables()


@check
def large_strings_travel(cluster):
    """120 strings of a megabyte."""
    words = np.array([bytes([index]) * 1000000 for index in range(120)], dtype=object)
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        fed = tf.placeholder(tf.string, [120])
        with tf.device(PS):
            there = tf.concat([fed, fed[:1]], 0)
        with tf.device(OTHER_WORKER):
            back = there[1:]
        result = session.run(back, {fed: words})
        expect(list(result[:-1]) == list(words[1:]) and result[-1] == words[0], "other strings came back")


@check_for(ref=False, resource=True)
def five_hundred_variables_train(cluster, case):
    cluster.forget_variables()
    with tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(0)):
            variables = [
                tf.Variable(float(index), name="many_%d" % index, use_resource=case) for index in range(500)
            ]
            loss = tf.add_n([tf.square(variable) for variable in variables]) / 2.0
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            init = tf.global_variables_initializer()
        homes = {variable.device for variable in variables}
        expect(len(homes) == len(cluster.ps_hosts), "variables live on %s", homes)
        with tf.Session(cluster.worker_target()) as session:
            session.run(init)
            for _ in range(3):
                session.run(train)
            values = session.run(variables)
            expect(np.allclose(values, np.arange(500) / 8.0), "values: %s", values[:10])


@check
def five_thousand_nodes_over_three_tasks(cluster):
    """Ten columns of five hundred sums, where each sum lies on another task than both of its terms."""
    width, depth = 10, 500
    devices = [PS, WORKER, OTHER_WORKER]
    expected = np.arange(width, dtype=np.int32)
    with tf.Graph().as_default():
        start = tf.placeholder(tf.int32, [width])
        row = tf.unstack(start)
        for layer in range(depth):
            with tf.device(devices[layer % 3]):
                row = [tf.add(row[i], row[(i + 1) % width]) for i in range(width)]
            expected = expected + np.roll(expected, -1)
        nodes = len(tf.get_default_graph().as_graph_def().node)
        expect(nodes >= width * depth, "%d nodes", nodes)
        with tf.Session(cluster.worker_target()) as session:
            for _ in range(2):
                result = session.run(row, {start: np.arange(width)})
                expect(list(result) == list(expected), "%s instead of %s", result, expected)


@check
def eight_threads_share_a_session(cluster):
    cluster.forget_variables()
    rounds, threads = 40, 8
    with tf.Graph().as_default() as graph:
        fed = tf.placeholder(tf.float32, [None])
        with tf.device(PS):
            count = tf.Variable(0, name="counted", use_resource=True)
            add = count.assign_add(1, read_value=False)
            scaled = fed * 3.0
        with tf.device(OTHER_WORKER):
            total = tf.reduce_sum(scaled)
        with tf.Session(cluster.worker_target()) as session:
            session.run(count.initializer)
            graph.finalize()
            wrong = []

            def client(index):
                try:
                    for step in range(rounds):
                        size = index + step + 1
                        _, result = session.run([add, total], {fed: np.full(size, index, np.float32)})
                        if result != 3.0 * index * size:
                            wrong.append((index, step, result))
                except Exception as error:  # Reported below.
                    wrong.append((index, repr(error)))

            clients = [threading.Thread(target=client, args=(index,), daemon=True) for index in range(threads)]
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join(60)
                expect(not thread.is_alive(), "a thread still waits for its step")
            expect(not wrong, "wrong answers: %s", wrong[:5])
            value = session.run(count)
            expect(value == rounds * threads, "counted %s steps of %d", value, rounds * threads)


if __name__ == "__main__":
    checks.main(__doc__)
