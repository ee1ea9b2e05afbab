"""tf.metrics: counts, precision and recall, curves and thresholds."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(2)
    labels = tf.placeholder(tf.bool, [None], name="labels")
    predictions = tf.placeholder(tf.float32, [None], name="predictions")
    weights = tf.placeholder(tf.float32, [None], name="weights")
    hard = tf.greater(predictions, 0.5)
    made = [
        tf.metrics.true_positives(labels, hard),
        tf.metrics.true_negatives(labels, hard),
        tf.metrics.false_positives(labels, hard),
        tf.metrics.false_negatives(labels, hard),
        tf.metrics.precision(labels, hard),
        tf.metrics.recall(labels, hard),
        tf.metrics.true_positives_at_thresholds(labels, predictions, [0.2, 0.6]),
        tf.metrics.false_negatives_at_thresholds(labels, predictions, [0.2, 0.6]),
        tf.metrics.precision_at_thresholds(labels, predictions, [0.2, 0.6]),
        tf.metrics.recall_at_thresholds(labels, predictions, [0.2, 0.6], weights=weights),
        tf.metrics.auc(labels, predictions),
        tf.metrics.auc(labels, predictions, curve="PR", num_thresholds=10, summation_method="careful_interpolation"),
        tf.metrics.auc(labels, predictions, num_thresholds=20, summation_method="minoring", name="low"),
        tf.metrics.specificity_at_sensitivity(labels, predictions, 0.7),
        tf.metrics.sensitivity_at_specificity(labels, predictions, 0.7),
    ]
    check("local", [variable.name for variable in tf.local_variables()])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for _ in range(3):
            scores = rng.rand(20)
            feeds = {predictions: scores, labels: scores + 0.3 * rng.randn(20) > 0.5, weights: rng.rand(20)}
            check("updates", [sess.run(update, feeds) for _, update in made])
        check("values", sess.run([value for value, _ in made]))
