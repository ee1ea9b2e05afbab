"""A line fitted by Adagrad on two workers that share their parameters, with summaries (tutorial 001).

Each worker works on the points in an order of its own and without waiting for the other one. The Supervisor runs the
summaries in a thread beside the training.

    python tutorial_001_adagrad.py --ps_hosts=… --worker_hosts=… --task_index=0 --log_dir=/tmp/adagrad
"""

import numpy as np

import cluster as cluster_flags
from compat import tf


def train(cluster, log_dir, task_index=0, last_step=600, seed=1, resource_variables=False):
    """Trains up to the last global step; gives the number of steps made here, and the parameters."""
    random = np.random.RandomState(seed + task_index)
    points_x = np.linspace(-1, 1, 101)
    points_y = 2 * points_x + np.random.RandomState(seed).randn(*points_x.shape) * 0.4 + 0.2
    with tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(task_index)):
            x = tf.placeholder("float", name="X")
            y = tf.placeholder("float", name="Y")
            w = tf.Variable(-1.0, name="b0", use_resource=resource_variables)
            b = tf.Variable(-2.0, name="b1", use_resource=resource_variables)
            loss = tf.pow(y - (tf.multiply(x, w) + b), 2)
            global_step = tf.Variable(0, name="global_step", trainable=False, use_resource=resource_variables)
            train_op = tf.train.AdagradOptimizer(0.8).minimize(loss, global_step=global_step)
            tf.summary.scalar("slope", w)
            tf.summary.histogram("parameters", tf.stack([w, b]))
            saver = tf.train.Saver()
            summary_op = tf.summary.merge_all()
            init_op = tf.global_variables_initializer()
        supervisor = tf.train.Supervisor(
            is_chief=task_index == 0,
            logdir=log_dir,
            init_op=init_op,
            summary_op=summary_op,
            saver=saver,
            global_step=global_step,
            recovery_wait_secs=1,
            save_summaries_secs=1,
            save_model_secs=600,
        )
        local_steps = 0
        with supervisor.managed_session(cluster.worker_target(task_index)) as session:
            step = 0
            while not supervisor.should_stop() and step < last_step:
                order = random.permutation(len(points_x))
                for point_x, point_y in zip(points_x[order], points_y[order]):
                    _, step = session.run([train_op, global_step], feed_dict={x: point_x, y: point_y})
                    local_steps += 1
                    if step >= last_step:
                        break
            if task_index == 0:
                # The points are fed, so the Supervisor's own thread may run only what needs no feed: it does so above.
                supervisor.summary_computed(session, session.run(summary_op), step)
            slope, offset = w.eval(session=session), b.eval(session=session)
        supervisor.stop()
    return {"local_steps": local_steps, "slope": float(slope), "offset": float(offset)}


if __name__ == "__main__":
    flags = cluster_flags.training_parser(__doc__, last_step=600).parse_args()
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
