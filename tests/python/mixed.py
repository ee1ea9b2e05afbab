"""Checks: a cluster of two kinds of servers, with the session on either of them.

One of ps 0 and worker 0 is a TensorFlow server and the other one is not; which is which does not matter here, since
every check runs with the master on the ps and with the master on the worker.
"""

import numpy as np

import checks
import cluster as cluster_flags
import loss_curves
from checks import check_for, expect, expect_error
from compat import tf
from wire_values import SHAPES, dtypes, equal, numbers

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"

MASTERS = {
    "from_the_ps": lambda cluster: cluster.ps_target(),
    "from_the_worker": lambda cluster: cluster.worker_target(),
}


def _name(prefix, cluster, case, *more):
    """Variables outlive sessions, so each check has its own."""
    return "_".join([prefix, "ps" if case(cluster) == cluster.ps_target() else "worker"] + [str(m) for m in more])


@check_for(**MASTERS)
def devices_of_both_are_known(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        # Servers of 1.15 have an XLA device as well.
        names = sorted(device.name for device in session.list_devices() if device.device_type == "CPU")
        expect(names == sorted(task + "/device:CPU:0" for task in cluster.task_names()), "devices: %s", names)


@check_for(**MASTERS)
def variable_updates_cross_both_ways(cluster, case):
    """A variable on each side takes what the other side computes, and is read by the other side."""
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        for use_resource in (False, True):
            for home, other in ((PS, WORKER), (WORKER, PS)):
                with tf.device(home):
                    name = _name("crossing", cluster, case, home[5:7], use_resource)
                    variable = tf.Variable([1.0, 2.0], name=name, use_resource=use_resource)
                with tf.device(other):
                    update = variable.assign_add(tf.placeholder_with_default([1.0, 1.0], [2]) * 10.0)
                    with tf.control_dependencies([update]):
                        seen = variable.read_value() * 2.0
                session.run(variable.initializer)
                result = session.run(seen)
                expect(list(result) == [22.0, 24.0], "%s on %s: %s", name, home, result)
                expect(list(session.run(variable)) == [11.0, 12.0], "%s on %s afterwards", name, home)


@check_for(**MASTERS)
def feeds_and_fetches_cross_both_ways(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster), config=cluster_flags.no_rewrites()) as session:
        for first, second in ((PS, WORKER), (WORKER, PS)):
            with tf.device(first):
                fed = tf.placeholder(tf.float32, [None])
                sums = tf.cumsum(fed)
            with tf.device(second):
                shifted = sums + 1.0
            with tf.device(first):
                total = tf.reduce_sum(shifted)
            results = session.run([sums, shifted, total], {fed: [1, 2, 3]})
            expect([list(results[0]), list(results[1]), results[2]] == [[1, 3, 6], [2, 4, 7], 13], "%s", results)


@check_for(**MASTERS)
def every_dtype_crosses_both_ways(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster), config=cluster_flags.no_rewrites()) as session:
        travels = []
        for dtype in dtypes().values():
            for shape in SHAPES:
                value = numbers(dtype, shape)
                with tf.device(PS):
                    fed = tf.placeholder(dtype, shape)
                    wider = tf.expand_dims(fed, 0)
                with tf.device(WORKER):
                    back = tf.squeeze(wider, [0])
                with tf.device(PS):
                    travels.append((fed, value, tf.expand_dims(back, 0)))
        results = session.run([result for _, _, result in travels], {fed: value for fed, value, _ in travels})
        for (fed, value, _), result in zip(travels, results):
            expect(equal(value, result[0]), "%s: sent %r, got %r", fed.dtype, value, result)


@check_for(**MASTERS)
def large_tensors_cross_both_ways(cluster, case):
    """16 MB, which no message limit or window of either side may stop."""
    count = 4 * 1000 * 1000
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        with tf.device(PS):
            ascending = tf.range(tf.placeholder_with_default(count, []))
        with tf.device(WORKER):
            remainders = ascending % 1000
        with tf.device(PS):
            back = remainders + ascending
        result = session.run(back)
        expected = np.arange(count, dtype=np.int32)
        expect(np.array_equal(result, expected % 1000 + expected), "other numbers came back")


@check_for(**MASTERS)
def errors_of_either_side_reach_the_client(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        for home, other in ((PS, WORKER), (WORKER, PS)):
            with tf.device(home):
                shape = tf.placeholder(tf.int32, [1])
                shaped = tf.reshape(tf.range(6), shape, name="reshape_on_" + home[5:7])
            with tf.device(other):
                result = shaped * 2
            error = expect_error(errors.InvalidArgumentError, session.run, result, {shape: [4]})
            expect("reshape_on_" + home[5:7] in error.message, "not named: %s", error.message)
            expect(list(session.run(result, {shape: [6]})) == [0, 2, 4, 6, 8, 10], "a good step afterwards")
            with tf.device(home):
                name = _name("unset", cluster, case, home[5:7])
                unset = tf.Variable(1.0, name=name)
            with tf.device(other):
                read = unset + 1.0
            expect_error(errors.FailedPreconditionError, session.run, read)


@check_for(**MASTERS)
def cancelled_steps_end_on_both_sides(cluster, case):
    options = tf.RunOptions(timeout_in_ms=400)
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        for home, other in ((PS, WORKER), (WORKER, PS)):
            with tf.device(home):
                name = _name("cancelled", cluster, case, home[5:7])
                queue = tf.FIFOQueue(10, tf.int32, shapes=[[]], shared_name=name)
                enqueue, element, size = queue.enqueue(7), queue.dequeue(), queue.size()
            with tf.device(other):
                result = element * 2
            expect_error(errors.DeadlineExceededError, session.run, result, options=options)
            # The client has a clock of its own: it may have given up a moment before its master did.
            for _ in range(20):
                expect(session.run(size) == 0, "the queue of %s is not empty", home)
            session.run(enqueue)
            expect(session.run(size) == 1, "on %s a step that is over took the element", home)
            expect(session.run(result, options=options) == 14, "the element")


@check_for(**MASTERS)
def cond_crosses(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        for home, other in ((PS, WORKER), (WORKER, PS)):
            with tf.device(home):
                x = tf.placeholder(tf.float32, [])

            def elsewhere(x=x, other=other):
                with tf.device(other):
                    return x * 10.0

            with tf.device(home):
                result = tf.cond(x > 5.0, elsewhere, lambda x=x: x - 1.0)
            expect(session.run(result, {x: 6}) == 60.0, "the branch on %s", other)
            expect(session.run(result, {x: 3}) == 2.0, "the branch on %s", home)


@check_for(**MASTERS)
def while_loop_crosses(cluster, case):
    """Its body lies on both sides, and gradients flow back through it."""
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        for home, other in ((PS, WORKER), (WORKER, PS)):
            limit = tf.placeholder(tf.int32, [])
            factor = tf.placeholder_with_default(2.0, [])

            def body(i, total, home=home, other=other, factor=factor):
                with tf.device(other):
                    grown = total * factor
                with tf.device(home):
                    return i + 1, grown + 1.0

            with tf.device(home):
                _, total = tf.while_loop(lambda i, _, limit=limit: i < limit, body, [0, 1.0])
                slope = tf.gradients(total, factor)[0]
            for rounds in (0, 1, 12):
                result = session.run(total, {limit: rounds})
                expect(result == 2.0 ** (rounds + 1) - 1, "%d rounds from %s gave %s", rounds, home, result)
            # Of f -> ((f + 1) f + 1) f + 1 at 2.
            slope_value = session.run(slope, {limit: 3})
            expect(slope_value == 17.0, "the slope is %s", slope_value)


@check_for(**MASTERS)
def full_trace_has_both_sides(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster), config=cluster_flags.no_rewrites()) as session:
        fed = tf.placeholder(tf.float32, [])
        total = fed
        for step, device in enumerate((PS, WORKER, PS)):
            with tf.device(device):
                total = tf.add(total, 1.0, name="sum%d" % step)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        metadata = tf.RunMetadata()
        expect(session.run(total, {fed: 0}, options=options, run_metadata=metadata) == 3.0, "the result")
    ran_on = {
        node.node_name: device.device.split("/device")[0]
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name in ("sum0", "sum1", "sum2")
    }
    ps, worker = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
    expect(ran_on == {"sum0": ps, "sum1": worker, "sum2": ps}, "traced: %s", ran_on)
    expect(len(metadata.partition_graphs) >= 2, "%d partitions", len(metadata.partition_graphs))


@check_for(**MASTERS)
def partial_runs_cross(cluster, case):
    with tf.Graph().as_default(), tf.Session(case(cluster)) as session:
        with tf.device(WORKER):
            a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        with tf.device(PS):
            first = a + 1.0
        with tf.device(WORKER):
            second = first * b
        handle = session.partial_run_setup([first, second], [a, b])
        expect(session.partial_run(handle, first, {a: 1}) == 2.0, "first part")
        expect(session.partial_run(handle, second, {b: 20}) == 40.0, "second part")


_CURVES = {
    "_".join([curve, master]): (loss_curves.CASES[curve], MASTERS[master])
    for curve in ("layers_adam_ref", "layers_momentum_resource", "convolution_adam_resource", "embedding_adagrad_ref")
    for master in MASTERS
}


@check_for(**_CURVES)
def loss_curve_is_that_of_a_local_session(cluster, case):
    """With the optimiser of the master at work, which fuses ops before the other side sees them."""
    curve, master = case
    cluster.forget_variables()
    local = loss_curves.curve(curve, target="", device=None)
    remote = loss_curves.curve(curve, master(cluster), cluster.replica_device_setter(0))
    worst = loss_curves.distance(local, remote)
    expect(worst < 1e-5, "off by %g: %s, locally %s", worst, remote, local)


if __name__ == "__main__":
    checks.main(__doc__)
