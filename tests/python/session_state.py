"""Checks: what one session's kernels own is the same in all of its runs, and nobody else's.

Readers, queues, iterators, tables, random streams and the like belong to a session unless they have a shared name: an
enqueue in one run and a dequeue in another meet, although the runs are different graphs to the task that has the queue,
and the same program in another session starts anew. Every check runs with the master on the ps and on the worker, and with
the state on either, so that in a mixed cluster one side's master meets the other side's kernels.
"""

import os
import tempfile

import numpy as np

import checks
from checks import check_for, expect, expect_error
from compat import IS_TF1, tf

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"

_TARGETS = {"from_ps": lambda cluster: cluster.ps_target(), "from_worker": lambda cluster: cluster.worker_target()}
CASES = {
    "%s_state_on_%s" % (master, home[5:].split("/")[0]): (target, home)
    for master, target in _TARGETS.items()
    for home in (PS, WORKER)
}

# A wait that goes on for ever fails by itself.
PATIENCE_MS = 60000


class _Fixture:
    """A graph whose nodes are on one task, and sessions on the master of a case."""

    def __init__(self, cluster, case):
        self.target, self.home = case[0](cluster), case[1]
        self.graph = tf.Graph()

    def __enter__(self):
        self.default, self.device = self.graph.as_default(), tf.device(self.home)
        self.default.__enter__()
        self.device.__enter__()
        return self

    def __exit__(self, *error):
        self.device.__exit__(*error)
        self.default.__exit__(*error)

    def own_name(self, prefix):
        """A name that no other case has, for what outlives sessions."""
        return "_".join([prefix, self.home[5:7], self.target.rsplit(":", 1)[1]])

    def session(self):
        return tf.Session(self.target, graph=self.graph, config=tf.ConfigProto(operation_timeout_in_ms=PATIENCE_MS))


_QUEUES = {
    "fifo": lambda: tf.FIFOQueue(10, [tf.int32], [[]], shared_name=""),
    "shuffle": lambda: tf.RandomShuffleQueue(10, 0, [tf.int32], [[]], shared_name=""),
    "padding": lambda: tf.PaddingFIFOQueue(10, [tf.int32], [[]], shared_name=""),
    "priority": lambda: tf.PriorityQueue(10, [tf.int32], [[]], shared_name=""),
}


@check_for(**CASES)
def unnamed_queues_are_the_sessions_own(cluster, case):
    for kind, make in _QUEUES.items():
        with _Fixture(cluster, case) as here:
            queue = make()
            value = tf.placeholder_with_default(7, [])
            put = queue.enqueue([tf.constant(1, tf.int64), value] if kind == "priority" else value)
            size, taken = queue.size(), queue.dequeue()
        with here.session() as first, here.session() as second:
            first.run(put)
            first.run(put, {value: 8})
            expect((first.run(size), second.run(size)) == (2, 0), "%s: sizes", kind)
            first.run(put)
            seen = sorted(int(np.ravel(first.run(taken))[-1]) for _ in range(3))
            expect(seen == [7, 7, 8], "%s: %s", kind, seen)


@check_for(**CASES)
def an_iterator_initialised_in_one_run_gives_elements_in_others(cluster, case):
    with _Fixture(cluster, case) as here:
        dataset = tf.data.Dataset.range(10).map(lambda number: number * number).prefetch(2)
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        doubled = element * 2
    with here.session() as first, here.session() as second:
        expect_error(errors.FailedPreconditionError, first.run, element)
        first.run(iterator.initializer)
        expect([first.run(element), first.run(doubled), first.run(element)] == [0, 2, 4], "the first three")
        expect_error(errors.FailedPreconditionError, second.run, element)
        second.run(iterator.initializer)
        expect((second.run(doubled), first.run(element)) == (0, 9), "each has its own place")


@check_for(**CASES)
def a_one_shot_iterator_goes_on_from_run_to_run(cluster, case):
    with _Fixture(cluster, case) as here:
        element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(4)).get_next()
        doubled = element * 2
    with here.session() as session:
        expect([session.run(element), session.run(doubled), session.run(element)] == [0, 2, 2], "the first three")
        expect(session.run(doubled) == 6, "the last")
        expect_error(errors.OutOfRangeError, session.run, element)


@check_for(**CASES)
def an_iterators_handle_is_good_in_later_runs(cluster, case):
    with _Fixture(cluster, case) as here:
        dataset = tf.data.Dataset.range(5)
        iterator = tf.data.make_initializable_iterator(dataset)
        string_handle = iterator.string_handle()
        fed = tf.placeholder(tf.string, [])
        chosen = tf.data.Iterator.from_string_handle(
            fed, tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset)
        ).get_next()
    with here.session() as session:
        handle = session.run(string_handle)
        session.run(iterator.initializer)
        expect([session.run(chosen, {fed: handle}) for _ in range(3)] == [0, 1, 2], "elements by handle")


@check_for(**CASES)
def a_random_stream_goes_on_whatever_is_run_beside_it(cluster, case):
    with _Fixture(cluster, case) as here:
        drawn = tf.random_uniform([2], seed=7)
        beside = drawn + 1.0
        shuffled = tf.random_shuffle(tf.range(1000), seed=3)
    with here.session() as session:
        draws = [session.run(drawn), session.run(beside) - 1.0, session.run(drawn), session.run([drawn, shuffled])[0]]
        for first in range(4):
            for second in range(first):
                expect(not np.allclose(draws[first], draws[second]), "draws %d and %d are the same", first, second)
        expect(not np.array_equal(session.run(shuffled), session.run([drawn, shuffled])[1]), "the same order twice")
    with here.session() as session:
        expect(np.allclose(session.run(drawn), draws[0]), "another session begins at the beginning")


def _files(directory, count=3):
    """Files of records that the servers, which are on this machine, can read."""
    paths = []
    for number in range(count):
        paths.append(os.path.join(directory, "records%d" % number))
        with tf.python_io.TFRecordWriter(paths[-1]) as writer:
            for record in range(4):
                writer.write(b"%d" % (number * 10 + record))
    return paths


@check_for(**CASES)
def a_reader_goes_on_where_it_was(cluster, case):
    with tempfile.TemporaryDirectory() as directory, _Fixture(cluster, case) as here:
        queue = tf.FIFOQueue(10, [tf.string], [[]])
        fill = queue.enqueue_many([_files(directory, 1)])
        reader = tf.TFRecordReader()
        _, record = reader.read(queue)
        length, produced = tf.strings.length(record), reader.num_records_produced()
        with here.session() as session:
            session.run(fill)
            expect((session.run(record), session.run(length), session.run(record)) == (b"0", 1, b"2"), "records")
            expect(session.run(produced) == 3, "how many were produced")


@check_for(**CASES)
def an_input_pipeline_of_queues_runs(cluster, case):
    """`string_input_producer`, `TFRecordReader`, `shuffle_batch`: three kernels with state and two threads of runners."""
    with tempfile.TemporaryDirectory() as directory, _Fixture(cluster, case) as here:
        names = tf.train.string_input_producer(_files(directory), num_epochs=2, shuffle=True)
        _, record = tf.TFRecordReader().read(names)
        number = tf.string_to_number(record, tf.int32)
        batch = tf.train.shuffle_batch([number], batch_size=4, capacity=20, min_after_dequeue=8)
        setup = tf.group(tf.local_variables_initializer(), tf.global_variables_initializer())
        with here.session() as session:
            session.run(setup)
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            seen = []
            try:
                while True:
                    seen += session.run(batch).tolist()
            except errors.OutOfRangeError:
                pass
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=30)
        expected = sorted(2 * [number * 10 + record for number in range(3) for record in range(4)])
        expect(sorted(seen) == expected, "%s", seen)


@check_for(**CASES)
def unnamed_tables_are_the_sessions_own(cluster, case):
    from tensorflow.python.ops import gen_lookup_ops as ops

    with _Fixture(cluster, case) as here:
        table = ops.mutable_hash_table_v2(tf.string, tf.int64)
        put = ops.lookup_table_insert_v2(table, tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
        size = ops.lookup_table_size_v2(table)
        found = ops.lookup_table_find_v2(table, tf.constant(["b", "z"]), tf.constant(-1, tf.int64))
        static = ops.hash_table_v2(tf.int64, tf.int64)
        keys = tf.constant([5, 6], tf.int64)
        start = ops.initialize_table_v2(static, keys, keys * 10)
        looked_up = ops.lookup_table_find_v2(static, keys, tf.constant(0, tf.int64))
    with here.session() as first, here.session() as second:
        first.run(put)
        expect((first.run(size), second.run(size)) == (2, 0), "sizes")
        expect(first.run(found).tolist() == [2, -1], "found")
        first.run(start)
        expect(first.run(looked_up).tolist() == [50, 60], "looked up")
        expect_error(errors.FailedPreconditionError, second.run, looked_up)


@check_for(**CASES)
def unnamed_accumulators_are_the_sessions_own(cluster, case):
    from tensorflow.python.ops import data_flow_ops

    with _Fixture(cluster, case) as here:
        accumulator = data_flow_ops.ConditionalAccumulator(tf.float32, [], shared_name="")
        add = accumulator.apply_grad(3.0)
        count, mean = accumulator.num_accumulated(), accumulator.take_grad(2)
        sparse = data_flow_ops.SparseConditionalAccumulator(tf.float32, [None, 1], shared_name="")
        add_rows = sparse.apply_grad([0], [[1.0]], [2, 1])
        rows = sparse.num_accumulated()
    with here.session() as first, here.session() as second:
        first.run([add, add_rows])
        first.run(add)
        expect(first.run([count, rows]) == [2, 1], "in the first session")
        expect(second.run([count, rows]) == [0, 0], "in the second")
        expect(first.run(mean) == 3.0, "the mean")


@check_for(**CASES)
def staging_areas_keep_what_they_got(cluster, case):
    from tensorflow.python.ops import data_flow_ops

    with _Fixture(cluster, case) as here:
        area = data_flow_ops.StagingArea([tf.float32], shapes=[[]], shared_name=here.own_name("staging"))
        put, size, got = area.put([tf.constant(4.0)]), area.size(), area.get()
    with here.session() as session:
        session.run(put)
        session.run(put)
        expect(session.run(size) == 2, "size")
        expect(session.run(got) in (4.0, [4.0]), "value")


@check_for(**CASES)
def variables_without_a_shared_name_keep_their_values(cluster, case):
    from tensorflow.python.ops import gen_resource_variable_ops as resource
    from tensorflow.python.ops import gen_state_ops as reference

    with _Fixture(cluster, case) as here:
        # Found by the name of the node, so each check has its own.
        name = here.own_name("plain")
        old = reference.variable_v2([], tf.float32, name=name)
        set_old = tf.assign(old, 1.5, validate_shape=True)
        handle = resource.var_handle_op(dtype=tf.float32, shape=[], name=name + "_handle", shared_name=name + "_handle")
        set_new = resource.assign_variable_op(handle, tf.constant(2.5))
        read_new = resource.read_variable_op(handle, tf.float32)
    with here.session() as session:
        session.run([set_old, set_new])
        expect((session.run(old), session.run(read_new)) == (1.5, 2.5), "values")


@check_for(**CASES)
def a_stack_in_a_loop_gives_back_what_it_got(cluster, case):
    """The gradient of a loop keeps values of each iteration on stacks, which live as long as a step."""
    with _Fixture(cluster, case) as here:
        start = tf.placeholder_with_default(2.0, [])
        result = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * x), [tf.constant(0), start])[1]
        gradient = tf.gradients(result, start)[0]
    with here.session() as session:
        expect((session.run(result), session.run(gradient)) == (256.0, 1024.0), "x ** 8 at 2")
        expect(session.run(gradient, {start: 1.0}) == 8.0, "x ** 8 at 1")


@check_for(**CASES)
def what_a_session_adds_later_meets_what_it_had(cluster, case):
    """The graph grows between runs, as notebooks have it."""
    with _Fixture(cluster, case) as here:
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="")
        put = queue.enqueue(3)
        with here.session() as session:
            session.run(put)
            size = queue.size()
            expect(session.run(size) == 1, "one was put before the graph grew")
            session.run(put)
            taken = queue.dequeue()
            expect((session.run(taken), session.run(size)) == (3, 1), "two were put")


@check_for(on_ps=PS)
def a_master_that_dies_leaves_a_session_to_be_forgotten(cluster, case):
    """Whoever runs this looks whether the other task forgets it."""
    with _Fixture(cluster, (_TARGETS["from_worker"], case)) as here:
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="")
        put, table = queue.enqueue(3), tf.reduce_max(tf.constant(np.arange(1000000)))
    session = here.session()
    session.run(put)
    expect(session.run(table) == 999999, "the largest")
    checks.ask("restart", job="worker", task=0)


if __name__ == "__main__":
    assert IS_TF1 or not tf.executing_eagerly()
    checks.main(__doc__)
