"""Checks: everything a session can be asked for, with nodes on several tasks."""

import threading

import numpy as np

import checks
from checks import check, check_for, expect, expect_error
from cluster import no_rewrites
from compat import tf

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"
OTHER_WORKER = "/job:worker/task:1"


def across_tasks():
    """Feeds on two workers, sums on a ps: the smallest graph that needs three tasks."""
    with tf.device(WORKER):
        a = tf.placeholder(tf.float32, [], name="a")
    with tf.device(OTHER_WORKER):
        b = tf.placeholder(tf.float32, [], name="b")
    with tf.device(PS):
        first = tf.add(a, 1.0, name="first")
        second = tf.add(first, b, name="second")
    return a, b, first, second


def blocked_dequeue(name, device=PS):
    """A queue that holds nothing, an enqueue and a dequeue whose result crosses tasks."""
    with tf.device(device):
        queue = tf.FIFOQueue(10, tf.int32, shapes=[[]], shared_name=name)
        enqueue = queue.enqueue(7)
        element = queue.dequeue()
        size = queue.size()
    with tf.device(WORKER):
        result = tf.identity(element * 2, name="result")
    return enqueue, result, size


@check
def feeds_and_fetches_have_the_usual_structures(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, b, first, second = across_tasks()
        result = session.run({"one": first, "rest": [second, (a,)], "op": second.op}, {a: 2, b: 10})
        expect(result == {"one": 3.0, "rest": [13.0, (2.0,)], "op": None}, "got %s", result)
        expect(session.run([first, first], {a: 1}) == [2.0, 2.0], "the same fetch twice")
        expect(session.run(second, {first: 40, b: 2}) == 42.0, "feeding an inner tensor")


@check
def session_follows_a_growing_graph(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            value = tf.Variable(1.0, name="growing")
        session.run(value.initializer)
        total = value
        for step in range(10):
            with tf.device([PS, WORKER, OTHER_WORKER][step % 3]):
                total = total + step
            expect(session.run(total) == 1 + sum(range(step + 1)), "after %d extensions", step)


@check
def partial_run(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, b, first, second = across_tasks()
        handle = session.partial_run_setup([first, second], [a, b])
        expect(session.partial_run(handle, first, {a: 1}) == 2.0, "first part")
        expect(session.partial_run(handle, second, {b: 20}) == 22.0, "second part")
        expect_error(errors.InvalidArgumentError, session.partial_run, handle, second, {b: 1})
        early = session.partial_run_setup([first, second], [a, b])
        expect_error(errors.InvalidArgumentError, session.partial_run, early, second, {b: 1})
        expect(session.run(second, {a: 1, b: 2}) == 4.0, "an ordinary run afterwards")


@check
def make_callable(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, b, first, second = across_tasks()
        function = session.make_callable([second, first], feed_list=[a, b])
        for number in range(5):
            expect(function(number, 100) == [number + 101, number + 1], "call %d", number)


@check
def callable_of_the_master(cluster):
    """The calls MakeCallable, RunCallable and ReleaseCallable, which Keras and the data sets use."""
    from tensorflow.core.protobuf import config_pb2

    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, b, first, second = across_tasks()
        options = config_pb2.CallableOptions()
        options.feed.extend([a.name, b.name])
        options.fetch.extend([second.name, first.name])
        function = session._make_callable_from_options(options)
        for number in range(5):
            result = function(np.float32(number), np.float32(100))
            expect(list(result) == [number + 101, number + 1], "call %d gave %s", number, result)
        del function
        expect(session.run(first, {a: 1}) == 2.0, "a run after the release")


@check
def list_devices(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        devices = session.list_devices()
        names = sorted(device.name for device in devices)
        expected = sorted(task + "/device:CPU:0" for task in cluster.task_names())
        expect(names == expected, "devices: %s", names)
        expect(all(device.device_type == "CPU" for device in devices), "types: %s", devices)
        incarnations = {device._incarnation for device in devices}
        expect(len(incarnations) == len(expected) and 0 not in incarnations, "incarnations: %s", incarnations)


@check
def device_filters_hide_tasks(cluster):
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.Graph().as_default(), tf.Session(cluster.worker_target(), config=config) as session:
        tasks = {device.name.rsplit("/device", 1)[0] for device in session.list_devices()}
        expected = {"/job:ps/replica:0/task:%d" % task for task in range(len(cluster.ps_hosts))}
        expect(tasks == expected | {"/job:worker/replica:0/task:0"}, "tasks: %s", tasks)
        with tf.device(OTHER_WORKER):
            hidden = tf.constant(1.0) + 1.0
        expect_error(errors.InvalidArgumentError, session.run, hidden)


@check
def reset_clears_variables_and_ends_sessions(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            ref = tf.Variable(1.0, name="reset_ref")
            resource = tf.Variable(2.0, name="reset_resource", use_resource=True)
        ended = tf.Session(cluster.worker_target())
        ended.run(tf.global_variables_initializer())
        expect(ended.run([ref, resource]) == [1.0, 2.0], "before")
        tf.Session.reset(cluster.worker_target())
        expect_error(errors.AbortedError, ended.run, ref)
        expect_error(errors.AbortedError, ended.close)
        with tf.Session(cluster.worker_target()) as session:
            for variable in (ref, resource):
                expect_error(errors.FailedPreconditionError, session.run, variable)


@check
def reset_of_a_container_spares_the_others(cluster):
    with tf.Graph().as_default():
        with tf.device(PS), tf.container("kept"):
            kept = tf.Variable(1.0, name="in_kept")
        with tf.device(PS), tf.container("cleared"):
            cleared = tf.Variable(2.0, name="in_cleared")
        with tf.Session(cluster.worker_target()) as session:
            session.run(tf.global_variables_initializer())
        tf.Session.reset(cluster.worker_target(), ["cleared"])
        with tf.Session(cluster.worker_target()) as session:
            expect(session.run(kept) == 1.0, "the other container")
            expect_error(errors.FailedPreconditionError, session.run, cleared)


@check_for(ref=False, resource=True)
def variables_are_shared_by_all_masters(cluster, case):
    with tf.Graph().as_default():
        with tf.device(PS):
            shared = tf.Variable(0, name="shared_by_masters_%s" % case, use_resource=case)
            add = shared.assign_add(1)
        with tf.Session(cluster.worker_target()) as session:
            session.run(shared.initializer)
        for target in cluster.targets():
            with tf.Session(target) as session:
                session.run(add.op)
        for target in cluster.targets():
            with tf.Session(target) as session:
                value = session.run(shared)
                expect(value == len(cluster.targets()), "%s sees %s", target, value)


@check
def isolated_sessions_share_nothing(cluster):
    config = tf.ConfigProto(isolate_session_state=True)
    with tf.Graph().as_default():
        with tf.device(PS):
            private = tf.Variable(1.0, name="isolated")
        with tf.Session(cluster.worker_target(), config=config) as first:
            first.run(private.initializer)
            expect(first.run(private) == 1.0, "its own variable")
            with tf.Session(cluster.worker_target(), config=config) as second:
                expect_error(errors.FailedPreconditionError, second.run, private)
            with tf.Session(cluster.worker_target()) as third:
                expect_error(errors.FailedPreconditionError, third.run, private)


@check
def queues_without_a_shared_name_are_private(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
            enqueue, size = queue.enqueue(1), queue.size()
            shared = tf.FIFOQueue(10, tf.int32, shapes=[[]], shared_name="known_to_all")
            enqueue_shared, size_shared = shared.enqueue(1), shared.size()
        with tf.Session(cluster.worker_target()) as first, tf.Session(cluster.worker_target()) as second:
            first.run([enqueue, enqueue_shared])
            expect(first.run([size, size_shared]) == [1, 1], "the session that enqueued")
            expect(second.run([size, size_shared]) == [0, 1], "the other session")


@check
def full_trace_tells_where_nodes_ran(cluster):
    from tensorflow.python.client import timeline

    with tf.Graph().as_default(), tf.Session(cluster.worker_target(), config=no_rewrites()) as session:
        a, b, _, second = across_tasks()
        with tf.device(WORKER):
            third = tf.multiply(second, 2.0, name="third")
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        metadata = tf.RunMetadata()
        expect(session.run(third, {a: 1, b: 2}, options=options, run_metadata=metadata) == 8.0, "the result")
    nodes = {}
    for device in metadata.step_stats.dev_stats:
        nodes.setdefault(device.device.split("/device")[0], set()).update(
            node.node_name for node in device.node_stats
        )
    # Feeds enter at a task of the master's choice, so worker 1 may have nothing to do.
    expect({"first", "second"} <= nodes.get("/job:ps/replica:0/task:0", set()), "nodes: %s", nodes)
    expect("third" in nodes.get("/job:worker/replica:0/task:0", set()), "nodes: %s", nodes)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            expect(node.all_start_micros > 0, "%s has no time", node.node_name)
    homes = {node.device for graph in metadata.partition_graphs for node in graph.node}
    expect(len(metadata.partition_graphs) >= 2 and "" not in homes, "partitions: %s", homes)
    expect(
        {"first", "second", "third"} <= {node.name for graph in metadata.partition_graphs for node in graph.node},
        "nodes are missing from the partitions",
    )
    expect("first" in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(), "the timeline")
    return {task: len(names) for task, names in nodes.items()}


@check
def three_tasks_at_work_are_all_traced(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.ps_target(), config=no_rewrites()) as session:
        start = tf.placeholder(tf.float32, [])
        total = start
        for device in (PS, WORKER, OTHER_WORKER, PS):
            with tf.device(device):
                total = total + 1.0
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        expect(session.run(total, {start: 0}, options=options, run_metadata=metadata) == 4.0, "the result")
    traced = {device.device.split("/device")[0] for device in metadata.step_stats.dev_stats}
    expected = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"}
    expect(expected <= traced, "traced: %s", traced)


@check
def run_metadata_is_empty_unless_asked_for(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, _, first, _ = across_tasks()
        metadata = tf.RunMetadata()
        session.run(first, {a: 1}, run_metadata=metadata)
        expect(not metadata.step_stats.dev_stats and not metadata.partition_graphs, "metadata: %s", metadata)


@check
def timeout_of_a_run_ends_it_everywhere(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        enqueue, result, size = blocked_dequeue("timeout_of_a_run")
        options = tf.RunOptions(timeout_in_ms=400)
        for _ in range(3):
            expect_error(errors.DeadlineExceededError, session.run, result, options=options)
        session.run(enqueue)
        expect(session.run(size) == 1, "a step that is over took the element")
        expect(session.run(result, options=options) == 14, "the element")


@check
def timeout_of_a_session(cluster):
    config = tf.ConfigProto(operation_timeout_in_ms=400)
    with tf.Graph().as_default(), tf.Session(cluster.worker_target(), config=config) as session:
        enqueue, result, _ = blocked_dequeue("timeout_of_a_session")
        expect_error(errors.DeadlineExceededError, session.run, result)
        session.run(enqueue)
        expect(session.run(result) == 14, "the element")


@check
def close_cancels_a_running_step(cluster):
    with tf.Graph().as_default():
        enqueue, result, size = blocked_dequeue("close_cancels")
        session = tf.Session(cluster.worker_target())
        session.run(size)
        outcome = []

        def wait_for_element():
            try:
                outcome.append(session.run(result))
            except Exception as error:  # Looked at below.
                outcome.append(error)

        thread = threading.Thread(target=wait_for_element, daemon=True)
        thread.start()
        # The step needs no time to begin: whether it waits already or not, closing must end it.
        thread.join(0.3)
        session.close()
        thread.join(20)
        expect(not thread.is_alive(), "the step goes on although its session is closed")
        closed = (errors.CancelledError, errors.AbortedError, RuntimeError)
        expect(isinstance(outcome[0], closed), "the step ended with %r", outcome[0])
        with tf.Session(cluster.worker_target()) as other:
            other.run(enqueue)
            expect(other.run(size) == 1, "the cancelled step took the element")


@check_for(ref=False, resource=True)
def uninitialised_variable_is_a_failed_precondition(cluster, case):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            variable = tf.Variable(1.0, name="never_initialised_%s" % case, use_resource=case)
        with tf.device(WORKER):
            result = variable + 1.0
        error = expect_error(errors.FailedPreconditionError, session.run, result)
        expect(variable.op.name in str(error), "the message does not name it: %s", error)
        names = session.run(tf.report_uninitialized_variables())
        expect(list(names) == [variable.op.name.encode()], "reported: %s", names)


@check_for(job="/job:nowhere", task="/job:worker/task:99", kind="/job:ps/task:0/gpu:0")
def impossible_device_is_an_invalid_argument(cluster, case):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(case):
            nowhere = tf.add(tf.constant(1.0), 2.0, name="homeless")
        error = expect_error(errors.InvalidArgumentError, session.run, nowhere)
        expect("homeless" in str(error), "the message does not name the node: %s", error)


@check
def soft_placement_does_without_a_gpu(cluster):
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Graph().as_default(), tf.Session(cluster.worker_target(), config=config) as session:
        with tf.device("/job:worker/task:1/gpu:0"):
            total = tf.placeholder_with_default(1.0, []) + 2.0
        expect(session.run(total) == 3.0, "the result")


@check
def failing_op_is_named(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            size = tf.placeholder(tf.int32, [1])
            shaped = tf.reshape(tf.range(6), size, name="into_shape")
        with tf.device(WORKER):
            doubled = shaped * 2
        error = expect_error(errors.InvalidArgumentError, session.run, doubled, {size: [4]})
        expect("into_shape" in error.message, "the message does not name it: %s", error.message)
        expect(error.op is not None and error.op.name == "into_shape", "the op is %s", error.op)
        expect(list(session.run(doubled, {size: [6]})) == [0, 2, 4, 6, 8, 10], "a good step afterwards")


@check
def mistakes_have_the_codes_of_tensorflow(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        a, b, first, second = across_tasks()
        expect_error(errors.InvalidArgumentError, session.run, first)
        with tf.device(PS):
            queue = tf.FIFOQueue(2, tf.int32, shapes=[[]], shared_name="mistakes")
            close, dequeue, enqueue = queue.close(), queue.dequeue(), queue.enqueue(1)
            table = tf.constant([1.0, 2.0])
            index = tf.placeholder(tf.int32, [])
            row = tf.gather(table, index)
            checked = tf.Assert(tf.greater(index, 5), [index, "is too small"], name="checked")
            numerics = tf.check_numerics(tf.log(a), "not a number")
        session.run(close)
        expect_error(errors.OutOfRangeError, session.run, dequeue)
        expect_error(errors.CancelledError, session.run, enqueue)
        expect_error(errors.InvalidArgumentError, session.run, row, {index: 2})
        message = str(expect_error(errors.InvalidArgumentError, session.run, checked, {index: 3}))
        expect("is too small" in message, "the assertion's message: %s", message)
        expect_error(errors.InvalidArgumentError, session.run, numerics, {a: -1})
        expect(session.run(second, {a: 1, b: 1}) == 3.0, "a good step afterwards")


@check
def control_edges_order_steps_across_tasks(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            counter = tf.Variable(0, name="ordered", use_resource=True)
            add = counter.assign_add(1, read_value=False)
        with tf.device(OTHER_WORKER), tf.control_dependencies([add]):
            done = tf.no_op()
        with tf.device(PS), tf.control_dependencies([done]):
            after = counter.read_value()
        session.run(counter.initializer)
        for expected in range(1, 20):
            value = session.run(after)
            expect(value == expected, "read %s after update %d", value, expected)


@check
def cond_across_tasks(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(WORKER):
            x = tf.placeholder(tf.float32, [])

        def on_ps():
            with tf.device(PS):
                return x * 10.0

        def on_other_worker():
            with tf.device(OTHER_WORKER):
                return x - 1.0

        with tf.device(WORKER):
            result = tf.cond(x > 5.0, on_ps, on_other_worker) + 0.5
        for _ in range(5):
            expect(session.run(result, {x: 6}) == 60.5, "the branch on the ps")
            expect(session.run(result, {x: 3}) == 2.5, "the branch on the other worker")


@check
def while_loop_across_tasks(cluster):
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        limit = tf.placeholder(tf.int32, [])

        def body(i, total):
            with tf.device(PS):
                grown = total + tf.cast(i, tf.float32)
            with tf.device(OTHER_WORKER):
                return i + 1, grown * 2.0

        with tf.device(WORKER):
            _, total = tf.while_loop(lambda i, _: i < limit, body, [0, 1.0])
        for rounds in (0, 1, 2, 30):
            expected = np.float32(1.0)
            for i in range(rounds):
                expected = (expected + np.float32(i)) * np.float32(2)
            result = session.run(total, {limit: rounds})
            expect(result == expected, "%d rounds gave %s instead of %s", rounds, result, expected)


@check
def nested_loops_and_gradients_across_tasks(cluster):
    def build(devices):
        first, second = devices
        x = tf.placeholder(tf.float32, [])

        def inner(j, value):
            with tf.device(second):
                return j + 1, value * x

        def outer(i, value):
            _, value = tf.while_loop(lambda j, _: j < 2, inner, [0, value])
            with tf.device(first):
                return i + 1, value + 1.0

        with tf.device(first):
            _, result = tf.while_loop(lambda i, _: i < 3, outer, [0, 1.0])
            return x, result, tf.gradients(result, x)[0]

    with tf.Graph().as_default():
        x, result, slope = build((None, None))
        with tf.Session() as local:
            expected = local.run([result, slope], {x: 1.5})
    with tf.Graph().as_default():
        x, result, slope = build((WORKER, PS))
        with tf.Session(cluster.worker_target()) as session:
            actual = session.run([result, slope], {x: 1.5})
    expect(np.allclose(actual, expected, rtol=1e-6), "%s instead of %s", actual, expected)


@check
def functional_control_flow_runs_or_is_refused_by_name(cluster):
    """Loops and branches whose bodies are functions, as 2.x writes them when it is not told otherwise."""
    tf.enable_control_flow_v2()
    try:
        with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
            limit = tf.placeholder(tf.int32, [])
            with tf.device(PS):
                total = tf.while_loop(lambda i, _: i < limit, lambda i, x: (i + 1, x * 2.0), [0, 1.0])[1]
            with tf.device(OTHER_WORKER):
                result = tf.cond(total > 100.0, lambda: total - 100.0, lambda: -total)
            try:
                expect(session.run(result, {limit: 7}) == 28.0, "seven rounds")
                expect(session.run(result, {limit: 3}) == -8.0, "three rounds")
            except (errors.NotFoundError, errors.UnimplementedError) as error:
                expect("While" in error.message, "the message does not name the op: %s", error.message)
                return "refused"
            return "runs"
    finally:
        tf.disable_control_flow_v2()


@check_for(ref=False, resource=True)
def read_that_waits_for_an_update_sees_it(cluster, case):
    """Also where the reader is on another task than the variable."""
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            variable = tf.Variable([1.0, 2.0], name="waited_for_%s" % case, use_resource=case)
        with tf.device(OTHER_WORKER), tf.control_dependencies([variable.assign_add([10.0, 10.0])]):
            seen = variable.read_value() * 2.0
        session.run(variable.initializer)
        for update in range(1, 10):
            result = list(session.run(seen))
            expect(result == [2.0 + 20.0 * update, 4.0 + 20.0 * update], "after update %d: %s", update, result)


@check
def session_may_bring_a_cluster_of_its_own(cluster):
    """The servers take the names the session gives them, and its variables are its own."""
    config = tf.ConfigProto()
    for job, host in (("chief", cluster.worker_hosts[0]), ("store", cluster.ps_hosts[0])):
        added = config.cluster_def.job.add()
        added.name = job
        added.tasks[0] = host
    with tf.Graph().as_default():
        with tf.device("/job:store/task:0"):
            variable = tf.Variable([1.0, 2.0], name="known_to_the_store")
        with tf.device("/job:chief/task:0"):
            doubled = variable * 2.0
        with tf.Session(cluster.worker_target(), config=config) as session:
            names = sorted(device.name for device in session.list_devices() if device.device_type == "CPU")
            expected = ["/job:%s/replica:0/task:0/device:CPU:0" % job for job in ("chief", "store")]
            expect(names == expected, "devices: %s", names)
            session.run(variable.initializer)
            expect(list(session.run(doubled)) == [2.0, 4.0], "the value")
    with tf.Graph().as_default(), tf.device(PS):
        same = tf.Variable([0.0, 0.0], name="known_to_the_store")
        with tf.Session(cluster.worker_target()) as session:
            expect_error(errors.FailedPreconditionError, session.run, same)


@check
def blanks_before_a_port_and_jobs_without_tasks_do_no_harm(cluster):
    """In the target, and in a cluster that the session brings along."""

    def with_blank(host):
        return ": ".join(host.rsplit(":", 1))

    target = "grpc://" + with_blank(cluster.worker_hosts[0])
    with tf.Graph().as_default(), tf.Session(target) as session:
        expect(session.run(tf.constant(3)) == 3, "a blank in the target")
    config = tf.ConfigProto()
    for job, host in (("chief", cluster.worker_hosts[0]), ("store", cluster.ps_hosts[0]), ("empty", None)):
        added = config.cluster_def.job.add()
        added.name = job
        if host:
            added.tasks[0] = with_blank(host)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        with tf.device("/job:store/task:0"):
            y = x + 1.0
        with tf.device("/job:chief/task:0"):
            z = y * 2.0
        with tf.Session(target, config=config) as session:
            expect(session.run(z, {x: 2.0}) == 6.0, "blanks in the cluster")


@check
def py_func_stays_an_error_of_the_caller(cluster):
    """A Python function lives in the client; a server that is another process says so."""
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        with tf.device(PS):
            result = tf.py_func(lambda: np.float32(1), [], tf.float32)
        expect_error(errors.OpError, session.run, result)
    with tf.Graph().as_default(), tf.Session(cluster.worker_target()) as session:
        expect(session.run(tf.constant(1)) == 1, "another session afterwards")


if __name__ == "__main__":
    checks.main(__doc__)
