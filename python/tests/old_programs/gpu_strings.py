"""Written for machines with GPUs: device strings, gpu_options, soft placement, SyncReplicasOptimizer with replica_id."""

import math

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("ps_hosts", "", "ps hosts")
tf.app.flags.DEFINE_string("worker_hosts", "", "worker hosts")
tf.app.flags.DEFINE_string("job_name", "worker", "job name: worker or ps")
tf.app.flags.DEFINE_integer("task_index", 0, "Worker task index")
tf.app.flags.DEFINE_integer("num_gpus", 1, "Total number of gpus for each machine")
tf.app.flags.DEFINE_integer("issync", 1, "synchronous or not")
tf.app.flags.DEFINE_integer("steps", 100, "steps")
tf.app.flags.DEFINE_string("log_dir", "/tmp/gpu_strings", "logs")
FLAGS = tf.app.flags.FLAGS


def inference(images, hidden_units):
    with tf.name_scope("hidden1"):
        weights = tf.Variable(tf.truncated_normal([8, hidden_units], stddev=1.0 / math.sqrt(8.0)), name="weights")
        biases = tf.Variable(tf.zeros([hidden_units]), name="biases")
        hidden1 = tf.nn.relu(tf.matmul(images, weights) + biases)
    with tf.name_scope("softmax_linear"):
        weights = tf.Variable(tf.truncated_normal([hidden_units, 2], stddev=1.0 / math.sqrt(float(hidden_units))), name="weights")
        biases = tf.Variable(tf.zeros([2]), name="biases")
        return tf.nn.xw_plus_b(hidden1, weights, biases)


def main(_):
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    gpu_options = tf.GPUOptions(per_process_gpu_memory_fraction=0.4, allow_growth=True)
    config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False, gpu_options=gpu_options)
    config.gpu_options.visible_device_list = "0"
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, config=config)
    if FLAGS.job_name == "ps":
        with tf.device("/cpu:0"):
            server.join()
    is_chief = FLAGS.task_index == 0
    gpu = FLAGS.task_index % FLAGS.num_gpus
    worker_device = "/job:worker/task:%d/gpu:%d" % (FLAGS.task_index, gpu)
    with tf.device(tf.train.replica_device_setter(worker_device=worker_device, ps_device="/job:ps/cpu:0", cluster=cluster)):
        global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
        images = tf.placeholder(tf.float32, [None, 8])
        labels = tf.placeholder(tf.int32, [None])
        logits = inference(images, 16)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.to_int64(labels)), name="xentropy_mean")
        loss_summary = tf.scalar_summary(loss.op.name, loss) if hasattr(tf, "scalar_summary") else tf.summary.scalar("loss", loss)
        correct = tf.nn.in_top_k(logits, labels, 1)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
        optimizer = tf.train.AdamOptimizer(0.01)
        if FLAGS.issync == 1:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=len(worker_hosts), replica_id=FLAGS.task_index,
                total_num_replicas=len(worker_hosts), use_locking=True)
        grads_and_vars = optimizer.compute_gradients(loss)
        capped = [(tf.clip_by_norm(grad, 5.0), var) for grad, var in grads_and_vars if grad is not None]
        train_op = optimizer.apply_gradients(capped, global_step=global_step)
        if FLAGS.issync == 1:
            init_token_op = optimizer.get_init_tokens_op()
            chief_queue_runner = optimizer.get_chief_queue_runner()
        init_op = tf.initialize_all_variables()
        saver = tf.train.Saver()

    sv = tf.train.Supervisor(is_chief=is_chief, logdir=FLAGS.log_dir, init_op=init_op, summary_op=None, saver=saver,
                             global_step=global_step, save_model_secs=60)
    with sv.prepare_or_wait_for_session(server.target, config=config) as sess:
        if is_chief and FLAGS.issync == 1:
            sv.start_queue_runners(sess, [chief_queue_runner])
            sess.run(init_token_op)
        random = np.random.RandomState(FLAGS.task_index)
        step = 0
        while not sv.should_stop() and step < FLAGS.steps:
            xs = random.randn(50, 8)
            ys = (xs.sum(axis=1) > 0).astype(np.int32)
            _, loss_value, step, summary = sess.run([train_op, loss, global_step, loss_summary], feed_dict={images: xs, labels: ys})
            if is_chief:
                sv.summary_computed(sess, summary, global_step=step)
        print("worker %d, step %d, loss %f" % (FLAGS.task_index, step, loss_value))
        print("accuracy = %g" % accuracy.eval(feed_dict={images: xs, labels: ys}, session=sess))
    sv.stop()


if __name__ == "__main__":
    tf.app.run()
