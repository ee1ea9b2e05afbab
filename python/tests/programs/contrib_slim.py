"""A slim network with arg scopes, trained by slim's training operation."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    slim = tf.contrib.slim

    def start(shape, dtype=None, partition_info=None):
        return tf.constant(0.3 * rng.randn(*[int(size) for size in shape]), dtype)

    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    scope = slim.arg_scope([slim.conv2d, slim.fully_connected], weights_initializer=start, weights_regularizer=slim.l2_regularizer(0.01), normalizer_fn=slim.batch_norm)
    with scope, slim.arg_scope([slim.batch_norm], decay=0.9, scale=True):
        net = slim.conv2d(x, 4, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
        net = slim.repeat(net, 2, slim.conv2d, 4, [3, 3], scope="conv2")
        net = slim.dropout(slim.flatten(net), 0.5, is_training=False, scope="dropout")
        logits = slim.fully_connected(net, 3, activation_fn=None, normalizer_fn=None, scope="logits")
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    total = tf.losses.get_total_loss()
    train = slim.learning.create_train_op(total, tf.train.GradientDescentOptimizer(0.1), clip_gradient_norm=1.0)
    values, updates = slim.metrics.aggregate_metric_map({"accuracy": slim.metrics.streaming_accuracy(tf.argmax(logits, 1), tf.to_int64(labels))})
    check("model", [variable.name for variable in slim.get_model_variables()])
    check("global", [variable.name for variable in slim.get_variables()])
    check("trainable", [variable.name for variable in slim.get_trainable_variables()])
    check("kept", [variable.name for variable in slim.get_variables_to_restore(exclude=["logits", "global_step"])])
    check("losses", [loss.name for loss in tf.losses.get_regularization_losses()])
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        feeds = {x: rng.randn(6, 8, 8, 3), labels: [0, 1, 2, 0, 1, 2]}
        for _ in range(4):
            check("loss", sess.run(train, feeds))
        check("step", sess.run(tf.train.get_global_step()))
        sess.run(updates, feeds)
        check("accuracy", sess.run(values))
        check("averages", sess.run(slim.get_variables_by_name("moving_mean")))
