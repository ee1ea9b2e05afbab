"""A line fitted by plain gradient descent under a Supervisor, with checkpoints (tutorial 000).

Parameters live on the parameter servers; every worker runs this program and worker 0 is the chief, who initialises or
restores the parameters and saves them. Run again with a later last step and the same log directory, it resumes.

    python tutorial_000_linear.py --ps_hosts=… --worker_hosts=… --task_index=0 --log_dir=/tmp/line
"""

import os

import numpy as np

import cluster as cluster_flags
from compat import tf


def training_data(seed):
    """A noisy line of slope 2."""
    xs = np.linspace(-1, 1, 100)
    return xs, 2 * xs + np.random.RandomState(seed).randn(*xs.shape) * 0.3


def train(cluster, log_dir, task_index=0, last_step=400, seed=1, resource_variables=False):
    """Trains up to the last global step; gives the step it began at, the step it ended at and the parameters."""
    with tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(task_index)):
            x = tf.placeholder("float")
            y = tf.placeholder("float")
            w = tf.Variable(tf.random_normal([1], seed=seed), name="weight", use_resource=resource_variables)
            b = tf.Variable(tf.zeros([1]), name="bias", use_resource=resource_variables)
            global_step = tf.train.get_or_create_global_step()
            cost = tf.reduce_mean(tf.square(y - (tf.multiply(x, w) + b)))
            train_op = tf.train.GradientDescentOptimizer(0.05).minimize(cost, global_step=global_step)
            saver = tf.train.Saver(max_to_keep=1)
            init = tf.global_variables_initializer()
        supervisor = tf.train.Supervisor(
            is_chief=task_index == 0,
            logdir=log_dir,
            init_op=init,
            saver=saver,
            global_step=global_step,
            recovery_wait_secs=1,
            save_model_secs=5,
        )
        with supervisor.managed_session(cluster.worker_target(task_index)) as session:
            step = first_step = int(global_step.eval(session=session))
            while step < last_step:
                for point_x, point_y in zip(*training_data(seed)):
                    _, step = session.run([train_op, global_step], feed_dict={x: point_x, y: point_y})
                    if step >= last_step:
                        break
            slope, offset, end_step = session.run([w, b, global_step])
            if task_index == 0:
                supervisor.saver.save(session, os.path.join(log_dir, "model.ckpt"), global_step=int(end_step))
        supervisor.stop()
    return {
        "first_step": first_step,
        "last_step": int(end_step),
        "slope": float(slope[0]),
        "offset": float(offset[0]),
    }


if __name__ == "__main__":
    flags = cluster_flags.training_parser(__doc__, last_step=400).parse_args()
    print(
        train(
            cluster_flags.from_flags(flags),
            flags.log_dir,
            flags.task_index,
            flags.last_step,
            flags.seed,
            flags.resource_variables,
        )
    )
