"""Records read by queue runners, a slim model with an arg scope, and a step counter in a collection of the graph."""

import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import slim
from tensorflow.python.framework import ops
from tensorflow.python.ops import data_flow_ops

flags = tf.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_string("log_dir", "/tmp/records", "")
flags.DEFINE_integer("steps", 60, "")
FLAGS = flags.FLAGS


def write_records(path):
    writer = tf.python_io.TFRecordWriter(path)
    random = np.random.RandomState(3)
    for _ in range(64):
        image = random.randint(0, 256, [4, 4, 1]).astype(np.uint8)
        example = tf.train.Example(features=tf.train.Features(feature={
            "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tostring() if hasattr(image, "tostring") else image.tobytes()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(image.mean() > 127)])),
        }))
        writer.write(example.SerializeToString())
    writer.close()


def read_and_decode(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(filename_queue)
    features = tf.parse_single_example(serialized_example, features={
        "image_raw": tf.FixedLenFeature([], tf.string),
        "label": tf.FixedLenFeature([], tf.int64),
    })
    image = tf.decode_raw(features["image_raw"], tf.uint8)
    image.set_shape([16])
    image = tf.cast(image, tf.float32) * (1. / 255) - 0.5
    return tf.reshape(image, [4, 4, 1]), tf.cast(features["label"], tf.int32)


def main(unused_argv):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    tf.logging.set_verbosity(tf.logging.INFO)
    path = os.path.join(FLAGS.log_dir, "train-%d.tfrecords" % FLAGS.task_index)
    tf.gfile.MakeDirs(FLAGS.log_dir)
    write_records(path)
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
        with tf.name_scope("input"), tf.device("/job:worker/task:%d/cpu:0" % FLAGS.task_index):
            filename_queue = tf.train.string_input_producer([path])
            image, label = read_and_decode(filename_queue)
            images, labels = tf.train.shuffle_batch([image, label], batch_size=8, num_threads=2, capacity=100, min_after_dequeue=10)
        with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=tf.nn.relu, weights_regularizer=slim.l2_regularizer(0.0005)):
            net = slim.conv2d(images, 4, [3, 3], scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.flatten(net)
            net = slim.dropout(net, 0.9, scope="dropout")
            logits = slim.fully_connected(net, 2, activation_fn=None, scope="fc")
        one_hot = tf.one_hot(labels, 2)
        cross_entropy = tf.losses.softmax_cross_entropy(one_hot, logits)
        total_loss = tf.losses.get_total_loss()
        assert len(tf.get_collection(ops.GraphKeys.REGULARIZATION_LOSSES)) == 2
        global_step = slim.get_or_create_global_step()
        assert global_step in tf.get_default_graph()._collections[tf.GraphKeys.GLOBAL_STEP]
        queue = data_flow_ops.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="seen")
        train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(total_loss, global_step=global_step)
        tf.summary.scalar("total_loss", total_loss)
        tf.image_summary("images", images)
        remember, recall = queue.enqueue(cross_entropy), queue.dequeue()
        sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, logdir=FLAGS.log_dir, global_step=global_step,
                                 save_summaries_secs=1, save_model_secs=0)
        with sv.managed_session(server.target) as sess:
            step = 0
            while not sv.should_stop() and step < FLAGS.steps:
                _, loss_value, step = sess.run([train_op, total_loss, global_step])
            sess.run(remember)
            tf.logging.info("loss %g, last %g", loss_value, sess.run(recall))
            print("worker %d: step %d, loss %g" % (FLAGS.task_index, step, loss_value))


if __name__ == "__main__":
    tf.app.run()
