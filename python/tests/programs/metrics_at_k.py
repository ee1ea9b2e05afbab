"""tf.metrics: precision, recall and average precision of the best k."""

import numpy as np

DIFFERENCES = {name + "*": "the catalogue has no op for the size of a set: hits are counted by comparison" for name in ("precision_at", "recall_at", "average_precision_at", "one", "mine")}


def program(tf, check):
    rng = np.random.RandomState(3)
    predictions = tf.placeholder(tf.float32, [None, 6], name="predictions")
    labels = tf.placeholder(tf.int64, [None, 2], name="labels")
    made = [
        tf.metrics.precision_at_k(labels, predictions, 3),
        tf.metrics.recall_at_k(labels, predictions, 2),
        tf.metrics.precision_at_k(labels, predictions, 3, class_id=2),
        tf.metrics.recall_at_k(labels, predictions, 3, class_id=1, name="one"),
        tf.metrics.average_precision_at_k(labels, predictions, 3),
        tf.metrics.precision_at_top_k(labels, tf.nn.top_k(predictions, 2).indices, 2, name="mine"),
    ]
    check("local", [variable.name for variable in tf.local_variables()])
    check("names", [(value.name, update.name) for value, update in made])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for _ in range(3):
            rows = np.array([rng.permutation(6)[:2] for _ in range(4)])
            feeds = {predictions: rng.rand(4, 6), labels: rows}
            check("updates", [sess.run(update, feeds) for _, update in made])
        check("values", sess.run([value for value, _ in made]))
