"""tf.contrib.metrics (streaming_*), tf.contrib.losses and HParams."""

import numpy as np

DIFFERENCES = {
    name + "*": "the older losses are built as those of tf.losses: the same values by other nodes"
    for name in ("mean_squared_error", "softmax_cross_entropy_loss", "sigmoid_cross_entropy_loss", "absolute_difference", "log_loss", "total_loss")
}


def program(tf, check):
    rng = np.random.RandomState(4)
    metrics, losses = tf.contrib.metrics, tf.contrib.losses
    scores = tf.placeholder(tf.float32, [None], name="scores")
    labels = tf.placeholder(tf.bool, [None], name="labels")
    hard = scores > 0.5
    made = [
        metrics.streaming_mean(scores),
        metrics.streaming_accuracy(hard, labels),
        metrics.streaming_precision(hard, labels),
        metrics.streaming_recall(hard, labels),
        metrics.streaming_auc(scores, labels, num_thresholds=20),
        metrics.streaming_percentage_less(scores, 0.3),
    ]
    once = metrics.accuracy(tf.cast(hard, tf.int32), tf.cast(labels, tf.int32))
    onehot = tf.constant(np.eye(3, dtype=np.float32))
    logits = tf.constant(rng.randn(3, 3).astype(np.float32))
    older = [
        losses.mean_squared_error(logits, onehot),
        losses.softmax_cross_entropy(logits, onehot, label_smoothing=0.1),
        losses.sigmoid_cross_entropy(logits, onehot),
        losses.absolute_difference(logits, onehot, weights=2.0),
        losses.log_loss(tf.sigmoid(logits), onehot),
    ]
    check("how many", len(losses.get_losses()))
    params = tf.contrib.training.HParams(rate=0.1, sizes=[1, 2], name="x", flag=True)
    params.parse("rate=2,sizes=[4,5,6],flag=false")
    params.set_hparam("name", "y")
    params.add_hparam("more", 3)
    check("parameters", params.values())
    check("json", params.to_json(sort_keys=True))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for _ in range(2):
            value = rng.rand(10)
            feeds = {scores: value, labels: value + 0.2 * rng.randn(10) > 0.5}
            check("updates", [sess.run(update, feeds) for _, update in made])
            check("once", sess.run(once, feeds))
        check("values", sess.run([value for value, _ in made]))
        check("losses", sess.run(older))
