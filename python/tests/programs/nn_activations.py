"""Activations and the softmax family."""

import numpy as np

DIFFERENCES = {"swish/Identity*": "TensorFlow gives swish a gradient of its own; ours follows from its ops"}


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    made = {}
    for function in (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.leaky_relu, tf.nn.crelu, tf.nn.softplus, tf.nn.softsign):
        made[function.__name__] = function(x)
    made["sigmoid"], made["tanh"] = tf.nn.sigmoid(x), tf.nn.tanh(x)
    made["leaky"] = tf.nn.leaky_relu(x, alpha=0.5, name="leaky")
    made["softmax"], made["softmax_0"] = tf.nn.softmax(x), tf.nn.softmax(x, axis=0)
    made["log_softmax"] = tf.nn.log_softmax(x, name="ls")
    made["l2_loss"], made["l2_normalize"] = tf.nn.l2_loss(x), tf.nn.l2_normalize(x, 1)
    made["top_k"] = tf.nn.top_k(x, 2)
    made["in_top_k"] = tf.nn.in_top_k(x, [0, 1, 2], 2)
    made["zero_fraction"] = tf.nn.zero_fraction(x)
    with tf.name_scope("swish"):
        made["swish"] = tf.nn.swish(x)
    gradients = tf.gradients([made["elu"], made["selu"], made["softplus"], made["swish"], made["log_softmax"], made["l2_normalize"]], [x])
    value = np.linspace(-3, 3, 12).reshape(3, 4)
    value[1, 1] = 0
    with tf.Session() as sess:
        for name, tensor in sorted(made.items()):
            check(name, sess.run(tensor, {x: value}))
        check("gradient", sess.run(gradients, {x: value}))
