"""Initializers: graphs, configurations, what random ones keep to."""

import numpy as np


def program(tf, check):
    tf.set_random_seed(5)
    made = {
        "zeros": tf.zeros_initializer(),
        "ones": tf.ones_initializer(tf.int32),
        "constant": tf.constant_initializer(3.5),
        "list": tf.constant_initializer([1, 2, 3, 4, 5, 6]),
        "identity": tf.initializers.identity(gain=2.0),
        "uniform": tf.random_uniform_initializer(-1, 1, seed=3),
        "normal": tf.random_normal_initializer(1.0, 0.5),
        "truncated": tf.truncated_normal_initializer(stddev=0.1, seed=1),
        "scaling": tf.variance_scaling_initializer(2.0, "fan_out", "uniform"),
        "glorot_uniform": tf.glorot_uniform_initializer(),
        "glorot_normal": tf.glorot_normal_initializer(seed=2),
        "he": tf.initializers.he_normal(),
        "lecun": tf.initializers.lecun_uniform(seed=4),
        "unit": tf.uniform_unit_scaling_initializer(1.5),
        "xavier": tf.contrib.layers.xavier_initializer(),
        "scaling2": tf.contrib.layers.variance_scaling_initializer(),
    }
    values = {}
    for name, initializer in sorted(made.items()):
        values[name] = tf.get_variable(name, [2, 3], initializer=initializer, dtype=tf.int32 if name == "ones" else tf.float32)
    conv = tf.get_variable("conv", [3, 3, 4, 5])
    counts = tf.get_variable("counts", [3], dtype=tf.int64)
    for name, initializer in sorted(made.items()):
        if hasattr(initializer, "get_config"):
            config = initializer.get_config()
            check("configuration of " + name, {key: str(value) for key, value in config.items()})
            check("again", type(initializer).from_config(config).get_config() == config)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for name in ("zeros", "ones", "constant", "list", "identity"):
            check(name, sess.run(values[name]))
        check("counts", sess.run(counts))
        uniform, scaled = sess.run([values["uniform"], conv])
        check("limits", [bool(np.abs(uniform).max() < 1), bool(np.abs(scaled).max() < np.sqrt(6.0 / (9 * 9)))])
