"""Cross entropies with their flattening graphs, and their gradients."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    logits = tf.placeholder(tf.float32, [None, 4], name="logits")
    labels = tf.placeholder(tf.float32, [None, 4], name="labels")
    classes = tf.placeholder(tf.int64, [None], name="classes")
    wide = tf.placeholder(tf.float32, [2, 3, 4], name="wide")
    losses = [
        tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="v2"),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, axis=0),
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits),
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[0, 1, 2], [3, 2, 1]], logits=wide),
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits),
        tf.nn.weighted_cross_entropy_with_logits(labels, logits, 2.0),
        tf.nn.log_poisson_loss(labels, logits, compute_full_loss=True),
    ]
    total = tf.add_n([tf.reduce_sum(loss) for loss in losses])
    gradients = tf.gradients(total, [logits, wide])
    labels_gradient = tf.gradients(losses[0], [labels])
    feeds = {
        logits: rng.randn(5, 4),
        labels: np.eye(4)[[0, 1, 2, 3, 0]],
        classes: [0, 3, 2, 1, 1],
        wide: rng.randn(2, 3, 4),
    }
    check("labels have no gradient", labels_gradient[0] is None)
    with tf.Session() as sess:
        for index, loss in enumerate(losses):
            check("loss %d" % index, sess.run(loss, feeds))
        check("gradients", sess.run(gradients, feeds))
    try:
        tf.nn.sigmoid_cross_entropy_with_logits(logits=logits)
        check("refused", "no")
    except ValueError as error:
        check("refused", str(error))
