"""In-graph replication from one client: towers that share variables, gradients averaged by hand, bare sessions, 0.x names."""

import sys

import numpy as np
import tensorflow as tf

ps_hosts = [word.split("=")[1].split(",") for word in sys.argv if word.startswith("--ps_hosts")][0]
worker_hosts = [word.split("=")[1].split(",") for word in sys.argv if word.startswith("--worker_hosts")][0]
job = [word.split("=")[1] for word in sys.argv if word.startswith("--job_name")][0]
task = int([word.split("=")[1] for word in sys.argv if word.startswith("--task_index")][0])
cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
server = tf.train.Server(cluster.as_dict(), job_name=job, task_index=task)
if job == "ps" or task > 0:
    server.join()


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        # 0.x has the dimension first.
        grad = tf.concat(0, grads)
        grad = tf.reduce_mean(grad, 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def lstm_like(inputs):
    with tf.variable_scope("cell"):
        w = tf.get_variable("w", [3, 4], initializer=tf.uniform_unit_scaling_initializer(seed=4))
        b = tf.get_variable("b", [4], initializer=tf.constant_initializer(0.1))
        i, j = tf.split(1, 2, tf.matmul(inputs, w) + b)
        return tf.mul(tf.sigmoid(i), tf.tanh(j))


tf.set_random_seed(1)
data = np.random.RandomState(0).rand(2, 10, 3).astype("float32")
batches = tf.unpack(tf.constant(data))
tower_grads, losses = [], []
with tf.device("/job:ps/task:0"):
    global_step = tf.Variable(0, name="global_step", trainable=False)
    opt = tf.train.RMSPropOptimizer(0.05)
with tf.variable_scope(tf.get_variable_scope()):
    for i in range(len(worker_hosts)):
        with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d/gpu:0" % i)):
            with tf.name_scope("tower_%d" % i) as scope:
                out = lstm_like(batches[i])
                target = tf.select(tf.greater(batches[i][:, 0], 0.5), tf.ones([10]), tf.neg(tf.ones([10])))
                loss = tf.reduce_mean(tf.squared_difference(tf.reduce_sum(out, reduction_indices=1), target))
                tf.add_to_collection("losses", loss)
                tf.get_variable_scope().reuse_variables()
                tower_grads.append(opt.compute_gradients(loss))
                losses.append(loss)
total = tf.add_n(tf.get_collection("losses"), name="total_loss")
with tf.device("/job:ps/task:0"):
    train = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)
    with tf.control_dependencies([train]):
        both = tf.pack(losses)

config = tf.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", "/job:worker"])
coord = tf.train.Coordinator()
with tf.Session(server.target, config=config) as sess:
    sess.run(tf.initialize_all_variables())
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    first = sess.run(total)
    for step in range(60):
        values = sess.run(both)
    print("devices:", len(sess.list_devices()), "variables:", [v.op.name for v in tf.trainable_variables()])
    print("global step %d, loss %g -> %g" % (tf.train.global_step(sess, global_step), first, values.sum()))
    try:
        with tf.device("/gpu:0"):
            wrong = tf.constant(1.0) + 1.0
        with tf.Session(server.target, config=tf.ConfigProto(allow_soft_placement=False)) as strict:
            strict.run(wrong)
    except tf.errors.InvalidArgumentError as error:
        print("refused:", error.message.split("\n")[0][:60])
    coord.request_stop()
    coord.join(threads)
