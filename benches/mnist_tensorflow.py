"""One task of the MNIST trainer of examples/mnist_replica.rs, in TensorFlow: the same model, flags, data and printed lines.

TensorFlow 2.x in its 1.x manner. `cargo xtask bench --training` runs it as a cluster of processes, by turns with ours.
"""

import argparse
import gzip
import os
import tempfile
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf  # noqa: E402  (after the environment)

tf.disable_v2_behavior()
IMAGE_PIXELS = 28


def read_idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


class Digits:
    """Batches in a new random order in each epoch, as TensorFlow's tutorials had them."""

    def __init__(self, data_dir, seed):
        images = read_idx(os.path.join(data_dir, "train-images-idx3-ubyte.gz"), 16)
        labels = read_idx(os.path.join(data_dir, "train-labels-idx1-ubyte.gz"), 8)
        self.images = images.reshape(-1, IMAGE_PIXELS * IMAGE_PIXELS).astype(np.float32) / 255.0
        self.labels = np.eye(10, dtype=np.float32)[labels]
        self.random = np.random.RandomState(seed)
        self.order, self.position = np.arange(0), 0

    def next_batch(self, size):
        if self.position + size > len(self.order):
            self.order, self.position = self.random.permutation(len(self.images)), 0
        rows = self.order[self.position:self.position + size]
        self.position += size
        return self.images[rows], self.labels[rows]


def main():
    parser = argparse.ArgumentParser()
    for name in ["ps_hosts", "worker_hosts", "job_name", "data_dir"]:
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--train_steps", type=int, required=True)
    parser.add_argument("--hidden_units", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--sync_replicas", default="false", type=lambda text: text.lower() == "true")
    flags = parser.parse_args()

    workers = flags.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": workers})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    is_chief = flags.task_index == 0
    worker_device = "/job:worker/task:%d" % flags.task_index
    digits = Digits(flags.data_dir, flags.task_index)

    with tf.device(tf.train.replica_device_setter(worker_device=worker_device, ps_device="/job:ps/cpu:0", cluster=cluster)):
        global_step = tf.Variable(0, name="global_step", trainable=False)
        hid_w = tf.Variable(tf.truncated_normal([IMAGE_PIXELS * IMAGE_PIXELS, flags.hidden_units],
                                                stddev=1.0 / IMAGE_PIXELS), name="hid_w")
        hid_b = tf.Variable(tf.zeros([flags.hidden_units]), name="hid_b")
        sm_w = tf.Variable(tf.truncated_normal([flags.hidden_units, 10], stddev=flags.hidden_units ** -0.5), name="sm_w")
        sm_b = tf.Variable(tf.zeros([10]), name="sm_b")
        x = tf.placeholder(tf.float32, [None, IMAGE_PIXELS * IMAGE_PIXELS])
        y_ = tf.placeholder(tf.float32, [None, 10])
        hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
        y = tf.nn.softmax(tf.nn.xw_plus_b(hid, sm_w, sm_b))
        cross_entropy = -tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
        opt = tf.train.AdamOptimizer(flags.learning_rate)
        if flags.sync_replicas:
            opt = tf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=len(workers), total_num_replicas=len(workers),
                                                 name="mnist_sync_replicas")
        train_step = opt.minimize(cross_entropy, global_step=global_step)
        if flags.sync_replicas and is_chief:
            chief_queue_runner = opt.get_chief_queue_runner()
            init_tokens_op = opt.get_init_tokens_op()

        init_options = {"init_op": tf.global_variables_initializer()}
        if flags.sync_replicas:
            init_options["local_init_op"] = opt.chief_init_op if is_chief else opt.local_step_init_op
            init_options["ready_for_local_init_op"] = opt.ready_for_local_init_op
        supervisor = tf.train.Supervisor(is_chief=is_chief, logdir=tempfile.mkdtemp(), recovery_wait_secs=1,
                                         global_step=global_step, **init_options)
        config = tf.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", worker_device])
        session = supervisor.prepare_or_wait_for_session(server.target, config=config)
        if flags.sync_replicas and is_chief:
            supervisor.start_queue_runners(session, [chief_queue_runner])
            session.run(init_tokens_op)

        begin, local_step = time.time(), 0
        print("Training begins @ %f" % begin)
        while True:
            batch_xs, batch_ys = digits.next_batch(flags.batch_size)
            _, step = session.run([train_step, global_step], feed_dict={x: batch_xs, y_: batch_ys})
            local_step += 1
            print("%f: Worker %d: training step %d done (global step: %d)" %
                  (time.time(), flags.task_index, local_step, step))
            if step >= flags.train_steps:
                break
        print("Training ends @ %f" % time.time())
        print("Training elapsed time: %f s" % (time.time() - begin), flush=True)
    # The servers of other tasks may be gone by now: a graceful end would wait for them.
    os._exit(0)


if __name__ == "__main__":
    main()
