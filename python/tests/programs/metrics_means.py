"""tf.metrics: means, errors, accuracy, confusion, over several steps."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.placeholder(tf.float32, [None], name="y")
    i = tf.placeholder(tf.int32, [None], name="i")
    j = tf.placeholder(tf.int32, [None], name="j")
    made = [
        tf.metrics.mean(x),
        tf.metrics.mean(x, weights=y, name="weighted"),
        tf.metrics.accuracy(i, j, metrics_collections=["values"], updates_collections="updates"),
        tf.metrics.mean_tensor(tf.reshape(tf.stack([x, y])[:, :2], [2, 2])),
        tf.metrics.mean_absolute_error(x, y),
        tf.metrics.mean_squared_error(x, y),
        tf.metrics.root_mean_squared_error(x, y),
        tf.metrics.mean_relative_error(x, y, y),
        tf.metrics.mean_cosine_distance(tf.expand_dims(x, 0), tf.expand_dims(y, 0), 1),
        tf.metrics.percentage_below(x, 0.5),
        tf.metrics.mean_iou(i, j, 3),
        tf.metrics.mean_per_class_accuracy(i, j, 3),
    ]
    check("local", [variable.name for variable in tf.local_variables()])
    check("metric", [variable.name for variable in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)])
    check("collections", [tf.get_collection("values")[0].name, tf.get_collection("updates")[0].name])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for _ in range(3):
            feeds = {x: rng.rand(5), y: rng.rand(5) + 0.1, i: rng.randint(0, 3, 5), j: rng.randint(0, 3, 5)}
            check("updates", [sess.run(update, feeds) for _, update in made])
        check("values", sess.run([value for value, _ in made]))
