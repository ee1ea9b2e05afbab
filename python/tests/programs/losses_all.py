"""tf.losses: every loss, reductions, weights, collections."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    a = tf.placeholder(tf.float32, [None, 4], name="a")
    b = tf.placeholder(tf.float32, [None, 4], name="b")
    weights = tf.placeholder(tf.float32, [None, 1], name="weights")
    classes = tf.placeholder(tf.int64, [None, 1], name="classes")
    reduction = tf.losses.Reduction
    losses = [
        tf.losses.mean_squared_error(a, b),
        tf.losses.mean_squared_error(a, b, weights=weights),
        tf.losses.absolute_difference(a, b, weights=2.0, reduction=reduction.MEAN),
        tf.losses.cosine_distance(a, b, axis=1),
        tf.losses.hinge_loss(a, b),
        tf.losses.huber_loss(a, b, delta=0.5),
        tf.losses.log_loss(a, b, scope="mine"),
        tf.losses.mean_pairwise_squared_error(a, b),
        tf.losses.sigmoid_cross_entropy(a, b, label_smoothing=0.1),
        tf.losses.softmax_cross_entropy(a, b, label_smoothing=0.1, loss_collection=None, reduction=reduction.NONE),
        tf.losses.softmax_cross_entropy(a, b, reduction=reduction.SUM_OVER_BATCH_SIZE),
        tf.losses.sparse_softmax_cross_entropy(classes, b, reduction=reduction.SUM),
        tf.losses.compute_weighted_loss(tf.square(a), [[0.0], [1.0], [1.0]]),
    ]
    tf.losses.add_loss(tf.constant(3.0))
    check("collection", [loss.name for loss in tf.losses.get_losses()])
    check("scope", [loss.name for loss in tf.losses.get_losses(scope="mine")])
    total = tf.losses.get_total_loss()
    gradients = tf.gradients(total, [a, b])
    with tf.Session() as sess:
        feeds = {a: np.eye(4)[[0, 1, 2]], b: rng.rand(3, 4), weights: [[1.0], [0.0], [2.0]], classes: [[0], [2], [3]]}
        for index, loss in enumerate(losses):
            check("loss %d" % index, sess.run(loss, feeds))
        check("total", sess.run(total, feeds))
        check("gradients", sess.run(gradients, feeds))
