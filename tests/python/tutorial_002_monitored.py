"""The official how-to of distributed TensorFlow (tutorial 002): a greeting, a model cut by hand over tasks, and
asynchronous training of replicas in a MonitoredTrainingSession that stops at a given step.

    python tutorial_002_monitored.py --ps_hosts=… --worker_hosts=… --task_index=0 --log_dir=/tmp/monitored
"""

import numpy as np

import cluster as cluster_flags
from compat import tf


def hello(target):
    """A constant, by way of a server."""
    with tf.Graph().as_default():
        greeting = tf.constant("Hello, distributed TensorFlow!")
        with tf.Session(target) as session:
            return session.run(greeting)


def model_by_hand(cluster, steps=20):
    """Two layers whose weights live on two parameter servers and whose arithmetic runs on the last worker; the losses."""
    random = np.random.RandomState(5)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            weights_1 = tf.Variable(random.randn(4, 8).astype(np.float32) * 0.5)
            biases_1 = tf.Variable(tf.zeros([8]))
        with tf.device("/job:ps/task:%d" % (len(cluster.ps_hosts) - 1)):
            weights_2 = tf.Variable(random.randn(8, 1).astype(np.float32) * 0.5)
            biases_2 = tf.Variable(tf.zeros([1]))
        last_worker = len(cluster.worker_hosts) - 1
        with tf.device("/job:worker/task:%d" % last_worker):
            inputs = tf.constant(random.randn(16, 4), tf.float32)
            labels = tf.reduce_sum(inputs, axis=1, keepdims=True)
            layer_1 = tf.nn.relu(tf.matmul(inputs, weights_1) + biases_1)
            outputs = tf.matmul(layer_1, weights_2) + biases_2
            loss = tf.reduce_mean(tf.square(outputs - labels))
            train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        with tf.Session(cluster.worker_target(last_worker)) as session:
            session.run(tf.global_variables_initializer())
            return [float(session.run([loss, train_op])[0]) for _ in range(steps)]


def train(cluster, log_dir, task_index=0, last_step=300, seed=1, resource_variables=False, on_step=None):
    """Asynchronous training up to the last global step; gives the steps of this worker and the losses it saw.

    Calls `on_step` after each step.
    """
    random = np.random.RandomState(seed + task_index)
    with tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(task_index)):
            x = tf.placeholder(tf.float32, [None, 3])
            w = tf.get_variable("w", [3, 1], use_resource=resource_variables, initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - tf.reduce_sum(x, axis=1, keepdims=True)))
            global_step = tf.train.get_or_create_global_step()
            train_op = tf.train.AdagradOptimizer(0.3).minimize(loss, global_step=global_step)
        first_step, losses = None, []
        with tf.train.MonitoredTrainingSession(
            master=cluster.worker_target(task_index),
            is_chief=task_index == 0,
            checkpoint_dir=log_dir,
            hooks=[tf.train.StopAtStepHook(last_step=last_step)],
        ) as session:
            while not session.should_stop():
                _, value, step = session.run(
                    [train_op, loss, global_step], feed_dict={x: random.randn(8, 3).astype(np.float32)}
                )
                first_step = int(step) if first_step is None else first_step
                losses.append(float(value))
                if on_step:
                    on_step()
    return {"first_step": first_step, "local_steps": len(losses), "losses": losses}


if __name__ == "__main__":
    flags = cluster_flags.training_parser(__doc__, last_step=300).parse_args()
    the_cluster = cluster_flags.from_flags(flags)
    print(hello(the_cluster.worker_target(flags.task_index)))
    print(
        train(
            the_cluster, flags.log_dir, flags.task_index, flags.last_step, flags.seed, flags.resource_variables
        )
    )
