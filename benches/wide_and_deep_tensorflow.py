"""One task of the trainer of examples/wide_and_deep.rs, in TensorFlow: the same model, optimizers, flags and printed lines.

TensorFlow 2.x in its 1.x manner. `cargo xtask bench --embeddings` runs it as a cluster of processes, by turns with ours. Like ours
with --repeat_batches, it makes a few batches at the start and takes them in turn.
"""

import argparse
import os
import tempfile

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf  # noqa: E402  (after the environment)

tf.disable_v2_behavior()
FIELDS = 8
NUMBERS = 4


def draw(random, size, rows):
    """Ids of which small ones are frequent, numbers, and clicks."""
    values = rows // FIELDS
    ids = (random.random_sample([size, FIELDS]) ** 3 * values).astype(np.int64)
    ids += np.arange(FIELDS, dtype=np.int64) * values
    numbers = random.standard_normal([size, NUMBERS]).astype(np.float32)
    return ids, numbers, (random.random_sample(size) < 0.5).astype(np.float32)


def dense(name, inputs, units, relu=False):
    with tf.variable_scope(name):
        weights = tf.get_variable("kernel", [inputs.shape[1], units])
        biases = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.nn.bias_add(tf.matmul(inputs, weights), biases)
        return tf.nn.relu(outputs) if relu else outputs


def build(flags, parts):
    global_step = tf.train.get_or_create_global_step()
    ids = tf.placeholder(tf.int64, [None, FIELDS])
    numbers = tf.placeholder(tf.float32, [None, NUMBERS])
    labels = tf.placeholder(tf.float32, [None])
    size = flags.embedding_size
    partitioner = tf.fixed_size_partitioner(parts)
    embeddings = tf.get_variable("deep/embeddings", [flags.rows, size], partitioner=partitioner,
                                 initializer=tf.truncated_normal_initializer(stddev=0.1))
    wide_weights = tf.get_variable("wide/weights", [flags.rows, 1], partitioner=partitioner,
                                   initializer=tf.zeros_initializer())
    looked_up = tf.nn.embedding_lookup(embeddings, ids, partition_strategy="div")
    deep = tf.concat([tf.reshape(looked_up, [-1, FIELDS * size]), numbers], 1)
    deep = dense("deep/dense", deep, 64, relu=True)
    deep = dense("deep/dense_1", deep, 32, relu=True)
    deep = dense("deep/dense_2", deep, 1)
    pairs = tf.square(tf.reduce_sum(looked_up, 1)) - tf.reduce_sum(tf.square(looked_up), 1)
    pairs = tf.reduce_sum(0.5 * pairs, 1, keepdims=True)
    wide = tf.reduce_sum(tf.nn.embedding_lookup(wide_weights, ids, partition_strategy="div"), 1)
    wide += dense("wide/numbers", numbers, 1)
    logits = tf.squeeze(deep + pairs + wide, [1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    of = lambda scope: [variable for variable in tf.trainable_variables() if variable.name.startswith(scope)]
    train_op = tf.group(
        tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=global_step, var_list=of("deep/")),
        tf.train.FtrlOptimizer(0.3).minimize(loss, var_list=of("wide/")))
    return ids, numbers, labels, loss, train_op, global_step


def main():
    parser = argparse.ArgumentParser()
    for name in ["ps_hosts", "worker_hosts", "job_name"]:
        parser.add_argument("--" + name, required=True)
    for name in ["task_index", "train_steps", "batch_size", "embedding_size", "rows", "repeat_batches", "report_steps"]:
        parser.add_argument("--" + name, type=int, required=True)
    flags = parser.parse_args()

    ps = flags.ps_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps, "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    worker_device = "/job:worker/task:%d" % flags.task_index
    random = np.random.RandomState(100 + flags.task_index)
    batches = [draw(random, flags.batch_size, flags.rows) for _ in range(flags.repeat_batches)]

    with tf.device(tf.train.replica_device_setter(worker_device=worker_device, cluster=cluster)):
        ids, numbers, labels, loss, train_op, global_step = build(flags, len(ps))
        supervisor = tf.train.Supervisor(is_chief=flags.task_index == 0, logdir=tempfile.mkdtemp(), recovery_wait_secs=1,
                                         global_step=global_step, init_op=tf.global_variables_initializer(),
                                         save_model_secs=0, save_summaries_secs=0)
    config = tf.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", worker_device])
    session = supervisor.prepare_or_wait_for_session(server.target, config=config)
    steps = step = 0
    recent = 0.0
    while step < flags.train_steps:
        batch = batches[steps % len(batches)]
        _, value, step = session.run([train_op, loss, global_step], dict(zip([ids, numbers, labels], batch)))
        steps += 1
        recent += value
        if steps % flags.report_steps == 0:
            print("Worker %d: step %d (global step %d), loss of the last %d = %.4f" %
                  (flags.task_index, steps, step, flags.report_steps, recent / flags.report_steps), flush=True)
            recent = 0.0
    # The servers of other tasks may be gone by now: a graceful end would wait for them.
    os._exit(0)


if __name__ == "__main__":
    main()
