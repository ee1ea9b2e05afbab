"""TensorFlow 0.x: softmax regression on MNIST with a Supervisor, summaries by hand, and no flag for the step."""

from __future__ import absolute_import, division, print_function

import time

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task within the job")
flags.DEFINE_string("log_dir", "/tmp/softmax", "Directory for logs")
flags.DEFINE_integer("steps", None, "Number of steps")
FLAGS = flags.FLAGS


def variable_summaries(var, name):
  with tf.name_scope("summaries"):
    mean = tf.reduce_mean(var)
    tf.scalar_summary("mean/" + name, mean)
    with tf.name_scope("stddev"):
      stddev = tf.sqrt(tf.reduce_sum(tf.square(tf.sub(var, mean))))
    tf.scalar_summary("sttdev/" + name, stddev)
    tf.histogram_summary(name, var)


def main(_):
  if FLAGS.steps is None:
    # A flag that is set after the command line was read.
    FLAGS.steps = 120
  # A blank behind the colon.
  ps_hosts = [host.replace(":", ": ") for host in FLAGS.ps_hosts.split(",")]
  worker_hosts = FLAGS.worker_hosts.split(",")
  cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
  server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
  if FLAGS.job_name == "ps":
    server.join()
  mnist = input_data.read_data_sets("MNIST_data/", one_hot=True)
  with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
    x = tf.placeholder("float", [None, 784])
    y_ = tf.placeholder("float", [None, 10])
    W = tf.Variable(tf.zeros([784, 10]), name="W")
    b = tf.Variable(tf.zeros([10]), name="b")
    variable_summaries(W, "W")
    logits = tf.matmul(x, W) + b
    y = tf.nn.softmax(logits)
    # The order of the arguments in 0.x.
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits, y_))
    entropy_by_hand = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
    sparse = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits, tf.argmax(y_, dimension=1)))
    tf.scalar_summary("cross entropy", cross_entropy)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy, global_step=global_step)
    correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, "float"))
    saver = tf.train.Saver(tf.all_variables())
    summary_op = tf.merge_all_summaries()
    init_op = tf.initialize_all_variables()

  sv = tf.train.Supervisor(is_chief=(FLAGS.task_index == 0), logdir=FLAGS.log_dir, init_op=init_op, summary_op=None,
                           saver=saver, global_step=global_step, save_model_secs=600)
  config = tf.ConfigProto(allow_soft_placement=True)
  sess = sv.prepare_or_wait_for_session(server.target, config=config)
  begin = time.time()
  step = 0
  while not sv.should_stop() and step < FLAGS.steps:
    batch_xs, batch_ys = mnist.train.next_batch(100)
    _, loss, by_hand, by_class, step = sess.run(
        [train_step, cross_entropy, entropy_by_hand, sparse, global_step], feed_dict={x: batch_xs, y_: batch_ys})
    assert abs(by_hand - loss) < 1e-3 and abs(by_class - loss) < 1e-3, (loss, by_hand, by_class)
    if FLAGS.task_index == 0 and step % 10 == 0:
      sv.summary_computed(sess, sess.run(summary_op, feed_dict={x: batch_xs, y_: batch_ys}))
  print("worker %d: %d steps in %.1f s" % (FLAGS.task_index, step, time.time() - begin))
  print("accuracy = %g" % sess.run(accuracy, feed_dict={x: mnist.test.images, y_: mnist.test.labels}))
  sv.stop()


if __name__ == "__main__":
  tf.app.run()
