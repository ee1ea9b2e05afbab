"""Nodes pinned to jobs, tasks and devices, by hand and by a device setter (tutorial 003).

    python tutorial_003_placement.py --ps_hosts=a:1,b:2 --worker_hosts=c:3,d:4,e:5
"""

import cluster as cluster_flags
from compat import tf


def by_hand(cluster):
    """A parameter on a ps, two sums on two workers, and the client on the ps; the second sum."""
    with tf.Graph().as_default():
        with tf.device("/job:ps"):
            a = tf.Variable(1.0, name="a")
        with tf.device("/job:worker"):
            b = a + 2
        with tf.device("/job:worker/task:1"):
            c = a + b
        with tf.Session(cluster.ps_target()) as session:
            session.run(a.initializer)
            return float(c.eval(session=session))


def by_setter(cluster):
    """Three variables dealt out to two parameter servers, and sums in nested device scopes.

    Gives the values of the two products and, from the trace of the step, the device each node ran on.
    """
    with tf.Graph().as_default():
        setter = tf.train.replica_device_setter(ps_tasks=2, ps_device="/job:ps", worker_device="/job:worker")
        with tf.device(setter):
            v1 = tf.Variable(1.0, name="v1")
            v2 = tf.Variable(2.0, name="v2")
            v3 = tf.Variable(3.0, name="v3")
            s = tf.add(v1, v2, name="s")
            with tf.device("/task:1"):
                p1 = tf.multiply(2.0, s, name="p1")
                with tf.device("/cpu:0"):
                    p2 = tf.multiply(3.0, s, name="p2")
        config = cluster_flags.no_rewrites()
        config.log_device_placement = True
        with tf.Session(cluster.ps_target(), config=config) as session:
            session.run([v1.initializer, v2.initializer, v3.initializer])
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            metadata = tf.RunMetadata()
            values = session.run([p1, p2, v3], options=options, run_metadata=metadata)
    names = ["v1", "v2", "v3", "s", "p1", "p2"]
    devices = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            if node.node_name in names:
                devices[node.node_name] = device.device
    return [float(value) for value in values], devices


if __name__ == "__main__":
    the_cluster = cluster_flags.from_flags(cluster_flags.argument_parser(__doc__).parse_args())
    print(by_hand(the_cluster))
    print(by_setter(the_cluster))
