"""Parameter servers that wait on a shared queue instead of join(), a timeline of a step, and an old global step."""

import argparse
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

FLAGS = None


def create_done_queue(index, workers):
    """A queue on the ps that workers fill when they are done."""
    with tf.device("/job:ps/task:%d" % index):
        return tf.FIFOQueue(workers, tf.int32, shared_name="done_queue" + str(index))


def main(_):
    ps_hosts, worker_hosts = FLAGS.ps_hosts.split(","), FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, protocol="grpc")

    if FLAGS.job_name == "ps":
        sess = tf.Session(server.target)
        queue = create_done_queue(FLAGS.task_index, len(worker_hosts))
        # Wait until all workers are done.
        for i in range(len(worker_hosts)):
            sess.run(queue.dequeue())
            print("ps %d received done %d" % (FLAGS.task_index, i))
        print("ps %d: quitting" % FLAGS.task_index)
        return

    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
        x = tf.placeholder(tf.float32, shape=(None, 2), name="x-input")
        y_ = tf.placeholder(tf.float32, shape=(None, 1), name="y-input")
        w1 = tf.Variable(tf.random_normal([2, 3], stddev=1, seed=1))
        w2 = tf.Variable(tf.random_normal([3, 1], stddev=1, seed=1))
        y = tf.matmul(tf.matmul(x, w1), w2)
        loss = tf.reduce_mean(tf.square(y - y_))
        global_step = tf.contrib.framework.get_or_create_global_step()
        learning_rate = tf.train.exponential_decay(0.05, global_step, 100, 0.96, staircase=True)
        train_op = tf.train.AdagradOptimizer(learning_rate).minimize(loss, global_step=global_step)
        tf.summary.scalar("loss", loss)
        enq_ops = [create_done_queue(i, len(worker_hosts)).enqueue(1) for i in range(len(ps_hosts))]

    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.FinalOpsHook([enq_ops])]
    run_options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    run_metadata = tf.RunMetadata()
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=is_chief, checkpoint_dir=FLAGS.log_dir, hooks=hooks, save_checkpoint_secs=60,
            config=tf.ConfigProto(log_device_placement=False, intra_op_parallelism_threads=2)) as mon_sess:
        local = 0
        while not mon_sess.should_stop():
            xs = np.random.rand(16, 2)
            feed = {x: xs, y_: xs.sum(axis=1, keepdims=True)}
            if local == 0:
                mon_sess.run(train_op, feed_dict=feed, options=run_options, run_metadata=run_metadata)
                trace = timeline.Timeline(step_stats=run_metadata.step_stats)
                with open("%s/timeline-%d.json" % (FLAGS.log_dir, FLAGS.task_index), "w") as f:
                    f.write(trace.generate_chrome_trace_format())
            else:
                mon_sess.run(train_op, feed_dict=feed)
            local += 1
    print("worker %d: done after %d steps" % (FLAGS.task_index, local))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.register("type", "bool", lambda v: v.lower() == "true")
    parser.add_argument("--ps_hosts", type=str, default="")
    parser.add_argument("--worker_hosts", type=str, default="")
    parser.add_argument("--job_name", type=str, default="")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--log_dir", type=str, default="/tmp/done_queue")
    parser.add_argument("--steps", type=int, default=200)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
