"""Handwritten digits on a network with one hidden layer, in step or not (tutorial 004).

With `--sync_replicas` the gradients of all workers are averaged before they are applied: the chief runs a queue runner
that applies them and hands every worker a token for the next round. The worker's device asks for a GPU, and soft
placement does without one.

    python tutorial_004_mnist.py --ps_hosts=… --worker_hosts=… --task_index=0 --log_dir=/tmp/mnist --sync_replicas
"""

import math

import cluster as cluster_flags
import mnist
from compat import tf


def train(
    cluster,
    log_dir,
    task_index=0,
    last_step=100,
    seed=1,
    resource_variables=False,
    sync_replicas=False,
    num_workers=2,
    hidden_units=100,
    batch_size=100,
):
    """Trains up to the last global step; gives the steps of this worker and the validation results."""
    digits, validation = mnist.load(seed + task_index)
    is_chief = task_index == 0
    with tf.Graph().as_default():
        setter = cluster.replica_device_setter(
            task_index, worker_device="/job:worker/task:%d/gpu:0" % task_index, ps_device="/job:ps/cpu:0"
        )
        with tf.device(setter):
            model = Model(hidden_units, seed, resource_variables)
            optimizer = tf.train.AdamOptimizer(0.01)
            if sync_replicas:
                optimizer = tf.train.SyncReplicasOptimizer(
                    optimizer,
                    replicas_to_aggregate=num_workers,
                    total_num_replicas=num_workers,
                    name="mnist_sync_replicas",
                )
            train_step = optimizer.minimize(model.cross_entropy, global_step=model.global_step)
            local_init, ready_for_local_init = None, None
            if sync_replicas:
                local_init = optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
                ready_for_local_init = optimizer.ready_for_local_init_op
                chief_queue_runner = optimizer.get_chief_queue_runner()
                init_tokens = optimizer.get_init_tokens_op()
            init = tf.global_variables_initializer()
        supervisor = tf.train.Supervisor(
            is_chief=is_chief,
            logdir=log_dir,
            init_op=init,
            local_init_op=local_init if sync_replicas else tf.train.Supervisor.USE_DEFAULT,
            ready_for_local_init_op=ready_for_local_init if sync_replicas else tf.train.Supervisor.USE_DEFAULT,
            recovery_wait_secs=1,
            global_step=model.global_step,
        )
        config = tf.ConfigProto(
            allow_soft_placement=True, device_filters=["/job:ps", "/job:worker/task:%d" % task_index]
        )
        session = supervisor.prepare_or_wait_for_session(cluster.worker_target(task_index), config=config)
        if sync_replicas and is_chief:
            supervisor.start_queue_runners(session, [chief_queue_runner])
            session.run(init_tokens)
        step, local_steps = 0, 0
        while step < last_step:
            images, labels = digits.next_batch(batch_size)
            _, step = session.run([train_step, model.global_step], {model.images: images, model.labels: labels})
            local_steps += 1
        if sync_replicas:
            # Whoever leaves first would leave the others without a token for their last round.
            session.run(init_tokens)
        cross_entropy, accuracy = session.run(
            [model.cross_entropy, model.accuracy],
            {model.images: validation.images, model.labels: validation.labels},
        )
        # The queue runner waits for gradients that nobody will send; closing the session ends its step.
        supervisor.request_stop()
        session.close()
        supervisor.stop()
    return {
        "local_steps": local_steps,
        "last_step": int(step),
        "cross_entropy": float(cross_entropy),
        "accuracy": float(accuracy),
    }


class Model:
    """One hidden layer with ReLU, softmax, cross entropy."""

    def __init__(self, hidden_units, seed, resource_variables):
        def variable(value, name, trainable=True):
            return tf.Variable(value, name=name, trainable=trainable, use_resource=resource_variables)

        self.global_step = variable(0, "global_step", trainable=False)
        hidden_w = variable(
            tf.truncated_normal([mnist.PIXELS, hidden_units], stddev=1.0 / 28, seed=seed), "hid_w"
        )
        hidden_b = variable(tf.zeros([hidden_units]), "hid_b")
        softmax_w = variable(
            tf.truncated_normal(
                [hidden_units, mnist.CLASSES], stddev=1.0 / math.sqrt(hidden_units), seed=seed
            ),
            "sm_w",
        )
        softmax_b = variable(tf.zeros([mnist.CLASSES]), "sm_b")
        self.images = tf.placeholder(tf.float32, [None, mnist.PIXELS])
        self.labels = tf.placeholder(tf.float32, [None, mnist.CLASSES])
        hidden = tf.nn.relu(tf.nn.xw_plus_b(self.images, hidden_w, hidden_b))
        y = tf.nn.softmax(tf.nn.xw_plus_b(hidden, softmax_w, softmax_b))
        self.cross_entropy = -tf.reduce_sum(self.labels * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
        hits = tf.equal(tf.argmax(y, 1), tf.argmax(self.labels, 1))
        self.accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))


if __name__ == "__main__":
    parser = cluster_flags.training_parser(__doc__, last_step=200)
    parser.add_argument("--sync_replicas", action="store_true", help="average the gradients of all workers")
    flags = parser.parse_args()
    the_cluster = cluster_flags.from_flags(flags)
    print(
        train(
            the_cluster,
            flags.log_dir,
            flags.task_index,
            flags.last_step,
            flags.seed,
            flags.resource_variables,
            flags.sync_replicas,
            num_workers=len(the_cluster.worker_hosts),
        )
    )
