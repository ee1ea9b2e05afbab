"""Checks: functions, control flow of version 2, and tf.data, on servers.

What a server gives is compared with plain arithmetic, and shuffled orders with those of a session inside this process.
"""

import contextlib
import os
import tempfile

import numpy as np
import tensorflow

import checks
from checks import check, check_for, expect, expect_error
from compat import IS_TF1, tf

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"


@contextlib.contextmanager
def control_flow_v2():
    """`cond` and `while_loop` as functions."""
    was_enabled = tf.control_flow_v2_enabled()
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        if not was_enabled:
            tf.disable_control_flow_v2()


def all_elements(session, next_element):
    elements = []
    while True:
        try:
            elements.append(session.run(next_element))
        except errors.OutOfRangeError as error:
            expect("End of sequence" in str(error), "the end says: %s", error)
            return elements


def plain(elements):
    return [np.asarray(element).tolist() for element in elements]


def one_shot(make, target):
    """All elements of a dataset, through a one-shot iterator."""
    with tf.Graph().as_default(), tf.device(WORKER if target else None):
        next_element = tf.data.make_one_shot_iterator(make()).get_next()
        with tf.Session(target) as session:
            return all_elements(session, next_element)


def as_written(dataset):
    """TensorFlow 1.15 makes one op of shuffle and repeat, with another order; the option tells it not to."""
    if not IS_TF1:
        return dataset
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


@check
def functions_compute_and_change_variables(cluster):
    function = tf.function if hasattr(tf, "function") else tensorflow.function
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            variable = tf.get_variable("v", initializer=1.0, use_resource=True)

        @function
        def add(x):
            variable.assign_add(x)
            return x * 2.0, variable.read_value()

        @function
        def nested(x):
            doubled, total = add(x)
            return doubled + total

        x = tf.placeholder(tf.float32, [])
        with tf.device(WORKER):
            result = nested(x)
            doubled, _ = add(x)
        session.run(tf.global_variables_initializer())
        expect(session.run(result, {x: 3.0}) == 10.0, "6 and 4")
        expect(session.run(doubled, {x: 2.0}) == 4.0, "a result that does not need the variable")
        expect(session.run(variable) == 6.0, "effects happen though no result needs them")
        session.run(result.op, {x: 1.0})
        expect(session.run(variable) == 7.0, "effects of a target")


@check
def gradients_go_through_functions(cluster):
    function = tf.function if hasattr(tf, "function") else tensorflow.function
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            weights = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=True)

        @function
        def loss(x):
            return tf.reduce_sum(tf.square(weights * x))

        value = loss(tf.constant([3.0, 4.0]))
        gradient = tf.gradients(value, [weights])[0]
        session.run(tf.global_variables_initializer())
        got = session.run([value, gradient])
        expect(got[0] == 73.0 and list(got[1]) == [18.0, 64.0], "got %s", got)


@check
def branches_and_loops_of_version_2(cluster):
    with control_flow_v2(), tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            counter = tf.get_variable("taken", initializer=0, use_resource=True)
        x = tf.placeholder(tf.int32, [])
        with tf.device(WORKER):
            chosen = tf.cond(
                x > 5, lambda: counter.assign_add(1) + 10, lambda: x - 1
            )
            index = tf.switch_case(x, [lambda: tf.constant(10), lambda: tf.constant(20)], default=lambda: x * 3)
            total = tf.while_loop(
                lambda i, s: i < x, lambda i, s: [i + 1, s + tf.cond(i > 2, lambda: i, lambda: 100)], [0, 0]
            )
        session.run(tf.global_variables_initializer())
        ops = {op.type for op in session.graph.get_operations()}
        expect(ops & {"If", "StatelessIf"} and ops & {"While", "StatelessWhile"}, "the graph has %s", ops)
        expect(session.run(chosen, {x: 3}) == 2, "the branch not taken")
        expect(session.run(counter) == 0, "its effects do not happen")
        expect(session.run(chosen, {x: 6}) == 11, "the branch taken")
        expect(session.run(counter) == 1, "its effects do")
        expect([session.run(index, {x: i}) for i in (0, 1, 2, -1)] == [10, 20, 6, -3], "a case")
        expect(session.run(total, {x: 5}) == [5, 307], "a loop: %s", session.run(total, {x: 5}))
        expect(session.run(total, {x: 0}) == [0, 0], "a loop that does not run")


@check
def loops_change_variables_in_order(cluster):
    with control_flow_v2(), tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            variable = tf.get_variable("doubled", initializer=1, use_resource=True)

        def body(i):
            with tf.control_dependencies([variable.assign(variable * 2 + i)]):
                return i + 1

        last = tf.while_loop(lambda i: i < 10, body, [0])
        session.run(tf.global_variables_initializer())
        session.run(last)
        expected = 1
        for i in range(10):
            expected = expected * 2 + i
        expect(session.run(variable) == expected, "got %s", session.run(variable))


@check
def elements_come_in_order_and_end(cluster):
    def make():
        numbers = np.arange(12, dtype=np.float32).reshape(6, 2)
        dataset = tf.data.Dataset.from_tensor_slices((numbers, np.arange(6)))
        return dataset.map(lambda x, y: (x * 2.0, y + 1)).batch(4).repeat(2).prefetch(1)

    elements = one_shot(make, cluster.worker_target())
    shapes = [element[0].shape for element in elements]
    expect(shapes == [(4, 2), (2, 2), (4, 2), (2, 2)], "shapes %s", shapes)
    expect(elements[1][0].tolist() == [[16.0, 18.0], [20.0, 22.0]] and elements[1][1].tolist() == [5, 6], "values")


@check
def initializable_iterators_start_again(cluster):
    with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
        limit = tf.placeholder(tf.int64, [])
        offset = tf.placeholder(tf.int64, [])
        dataset = tf.data.Dataset.range(limit).map(lambda x: x + offset).filter(lambda x: tf.equal(x % 2, 0))
        iterator = tf.data.make_initializable_iterator(dataset)
        next_element = iterator.get_next()
        expect_error(errors.FailedPreconditionError, session.run, next_element)
        for feeds, expected in (((5, 0), [0, 2, 4]), ((4, 1), [2, 4]), ((0, 0), [])):
            session.run(iterator.initializer, {limit: feeds[0], offset: feeds[1]})
            got = all_elements(session, next_element)
            expect([int(x) for x in got] == expected, "%s gives %s", feeds, got)


@check
def iterators_can_be_exchanged_by_handle(cluster):
    with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
        small, large = tf.data.Dataset.range(3), tf.data.Dataset.range(100, 103)
        handle = tf.placeholder(tf.string, [])
        iterator = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
        next_element = iterator.get_next()
        first = session.run(tf.data.make_one_shot_iterator(small).string_handle())
        second = session.run(tf.data.make_one_shot_iterator(large).string_handle())
        got = [int(session.run(next_element, {handle: h})) for h in (first, second, first, second)]
        expect(got == [0, 100, 1, 101], "got %s", got)
        expect_error(errors.InvalidArgumentError, session.run, next_element, {handle: b"nonsense"})
        structured = tf.data.Iterator.from_structure(tf.int64, [])
        element = structured.get_next()
        for dataset, expected in ((small, [0, 1, 2]), (large, [100, 101, 102])):
            session.run(structured.make_initializer(dataset))
            expect([int(x) for x in all_elements(session, element)] == expected, "reinitialised")


@check_for(
    small_buffer=lambda: tf.data.Dataset.range(20).shuffle(4, seed=7),
    whole_buffer=lambda: tf.data.Dataset.range(20).shuffle(100, seed=7),
    two_rounds=lambda: as_written(tf.data.Dataset.range(10).shuffle(5, seed=3).repeat(3)),
    same_rounds=lambda: tf.data.Dataset.range(10).shuffle(5, seed=3, reshuffle_each_iteration=False).repeat(2),
    batched=lambda: tf.data.Dataset.range(17).shuffle(6, seed=1).batch(3),
    windows=lambda: tf.data.Dataset.range(12).batch(4).flat_map(
        lambda x: tf.data.Dataset.from_tensor_slices(x).shuffle(3, seed=5)
    ),
    interleaved=lambda: tf.data.Dataset.range(5).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(x), cycle_length=3, block_length=2
    ),
    interleaved_in_parallel=lambda: tf.data.Dataset.range(4).interleave(
        lambda x: tf.data.Dataset.range(x, x + 3), cycle_length=2, num_parallel_calls=2
    ),
    sharded=lambda: tf.data.Dataset.range(11).shard(3, 1).skip(1),
    zipped=lambda: tf.data.Dataset.zip((tf.data.Dataset.range(5), tf.data.Dataset.range(3).concatenate(
        tf.data.Dataset.range(7, 8)))),
    cached=lambda: tf.data.Dataset.range(4).cache().repeat(2),
    padded=lambda: tf.data.Dataset.range(1, 6).map(lambda x: tf.fill([x], x)).padded_batch(2, [None]),
    mapped_in_parallel=lambda: tf.data.Dataset.range(50).map(lambda x: x * x, num_parallel_calls=4).prefetch(2),
    dropped_remainder=lambda: tf.data.Dataset.range(7).batch(3, drop_remainder=True),
    taken=lambda: tf.data.Dataset.range(9).take(5).repeat(2).skip(3),
)
def pipelines_give_what_tensorflow_gives(cluster, case):
    expected = one_shot(case, "")
    got = one_shot(case, cluster.worker_target())
    if expected and isinstance(expected[0], tuple):
        expect([plain(e) for e in got] == [plain(e) for e in expected], "got %s, expected %s", got, expected)
    else:
        expect(plain(got) == plain(expected), "got %s, expected %s", got, expected)


def write_records(path, count):
    with tf.python_io.TFRecordWriter(path) as writer:
        for index in range(count):
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[index, index + 0.5])),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[index % 3])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@check
def records_and_lines_are_read_from_files(cluster):
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, "part%d" % index) for index in range(2)]
        for path in paths:
            write_records(path, 5)
        text = os.path.join(directory, "lines")
        with open(text, "w") as out:
            out.write("header\na,1\r\nb,2\n\nlast")

        def parse(record):
            features = {"x": tf.FixedLenFeature([2], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}
            parsed = tf.parse_single_example(record, features)
            return parsed["x"], parsed["y"]

        def records():
            dataset = tf.data.TFRecordDataset(paths).map(parse, num_parallel_calls=2)
            return dataset.shuffle(4, seed=11).batch(3).prefetch(2)

        got, expected = one_shot(records, cluster.worker_target()), one_shot(records, "")
        expect([plain(e) for e in got] == [plain(e) for e in expected], "got %s, expected %s", got, expected)
        lines = one_shot(lambda: tf.data.TextLineDataset([text]).skip(1), cluster.worker_target())
        expect(lines == [b"a,1", b"b,2", b"", b"last"], "got %s", lines)

        with open(paths[1], "r+b") as damaged:
            damaged.seek(40)
            damaged.write(b"\xff\xff")
        with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
            element = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(paths[1:])).get_next()
            expect_error(errors.DataLossError, session.run, element)
        missing = lambda: tf.data.TFRecordDataset([os.path.join(directory, "missing")])
        expect_error(errors.NotFoundError, one_shot, missing, cluster.worker_target())


@check
def a_failing_element_fails_its_step_alone(cluster):
    with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
        dataset = tf.data.Dataset.range(4).map(lambda x: tf.check_numerics(1.0 / tf.cast(x - 1, tf.float32), "no"))
        element = tf.data.make_one_shot_iterator(dataset).get_next()
        expect(session.run(element) == -1.0, "the first")
        expect_error(errors.InvalidArgumentError, session.run, element)
        expect(session.run(element) == 1.0, "the one after the bad one")


@check
def wrong_arguments_are_errors(cluster):
    for make in (
        lambda n: tf.data.Dataset.range(3).batch(n),
        lambda n: tf.data.Dataset.range(3).shuffle(n, seed=1),
        lambda n: tf.data.Dataset.range(3).shard(2, n + 5),
        lambda n: tf.data.Dataset.range(3).map(lambda x: tf.fill([x], 1)).batch(3 + n),
        lambda n: tf.data.Dataset.range(0, 3, n),
    ):
        with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
            number = tf.placeholder(tf.int64, [])
            iterator = tf.data.make_initializable_iterator(make(number))
            element = iterator.get_next()

            def run():
                session.run(iterator.initializer, {number: 0})
                return session.run(element)

            expect_error(errors.InvalidArgumentError, run)


@check
def training_reads_its_batches_from_a_dataset(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            weight = tf.get_variable("w", initializer=0.0, use_resource=True)
        with tf.device(WORKER):
            xs = np.linspace(-1, 1, 64).astype(np.float32)
            dataset = tf.data.Dataset.from_tensor_slices((xs, 3 * xs)).shuffle(64, seed=1).repeat().batch(16).prefetch(2)
            x, y = tf.data.make_one_shot_iterator(dataset).get_next()
            loss = tf.reduce_mean(tf.square(weight * x - y))
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        with tf.Session(cluster.worker_target()) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(60):
                session.run(train)
            expect(abs(session.run(weight) - 3) < 0.05, "the weight is %s", session.run(weight))


if __name__ == "__main__":
    checks.main(__doc__)
