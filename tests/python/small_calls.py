"""Small programs that use every call a client can make, for the recorder of the fuzzers' inputs.

`conformance record-calls '{"worker": ["localhost:2222"]}' worker 0 DIR` serves, and this program is its client:

    python tests/python/small_calls.py grpc://localhost:2222

With `--master PORT WORKER_ADDRESS` it is a master itself, so that the server's worker is called.
"""

import sys

from compat import tf


def steps(target, device):
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        x = tf.placeholder(tf.float32, [2], name="x")
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer(), use_resource=False)
        y = tf.multiply(x, 2.0, name="y")
        z = tf.add(y, v, name="z")
        add = tf.assign_add(v, x, name="add")
        queue = tf.FIFOQueue(2, [tf.float32], name="q")
        put, take = queue.enqueue([x]), queue.dequeue()
        loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        branch = tf.cond(x[0] > 0, lambda: x + 1, lambda: x - 1)
        text = tf.strings.join([tf.as_string(x), "!"])
        init = tf.global_variables_initializer()
    with tf.Session(target, graph=graph) as session:
        session.run(init)
        print(session.run([z, loop, branch, text], {x: [1, 2]}))
        session.run(add, {x: [1, 2]})
        session.run(put, {x: [3, 4]})
        print(session.run(take))
        with graph.as_default(), tf.device(device):
            more = tf.reduce_sum(z)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        print(session.run(more, {x: [1, 2]}, options=options, run_metadata=tf.RunMetadata()))
        handle = session.partial_run_setup([y, z], [x])
        print(session.partial_run(handle, [y], {x: [5, 6]}), session.partial_run(handle, [z]))
        call = session.make_callable(z, [x])
        print(call([1.0, 1.0]))
        print(session.list_devices())
        try:
            session.run(take, options=tf.RunOptions(timeout_in_ms=20))
        except tf.errors.DeadlineExceededError as error:
            print(type(error).__name__)
        try:
            session.run(z)
        except tf.errors.InvalidArgumentError as error:
            print(type(error).__name__)
    tf.Session.reset(target, ["localhost"])


def main():
    if sys.argv[1] == "--master":
        port, worker = sys.argv[2:4]
        cluster = {"master": ["localhost:" + port], "worker": [worker]}
        server = tf.train.Server(cluster, job_name="master", task_index=0)
        steps(server.target, "/job:worker/task:0")
    else:
        steps(sys.argv[1], None)


if __name__ == "__main__":
    main()
