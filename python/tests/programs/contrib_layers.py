"""tf.contrib.layers with arg scopes: variables, collections, regularization, values."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    layers, framework = tf.contrib.layers, tf.contrib.framework
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    half = tf.constant_initializer(0.05)
    with framework.arg_scope([layers.conv2d, layers.fully_connected], weights_initializer=half, weights_regularizer=layers.l2_regularizer(0.1), outputs_collections="out"):
        with framework.arg_scope([layers.batch_norm], is_training=True, decay=0.9):
            y = layers.conv2d(x, 4, 3)
            y = layers.conv2d(y, 4, [3, 3], stride=2, normalizer_fn=layers.batch_norm, scope="second")
            y = layers.max_pool2d(y, 2)
            y = layers.avg_pool2d(y, 2, stride=1, padding="SAME", scope="mean")
            flat = layers.flatten(y)
            z = layers.fully_connected(flat, 5, normalizer_fn=layers.batch_norm)
            again = layers.fully_connected(flat, 5, scope="fully_connected", reuse=True, activation_fn=None, biases_initializer=None)
            stacked = layers.stack(z, layers.fully_connected, [3, 4], scope="stack")
            logits = layers.linear(stacked, 2, weights_initializer=half)
        repeated = layers.repeat(x, 2, layers.conv2d, 3, 3, scope="again")
    normed = layers.layer_norm(logits)
    parts = [y, z, again, logits, normed, repeated, layers.one_hot_encoding([1, 0], 3), layers.unit_norm(z, 1), layers.softmax(logits), layers.dropout(z, is_training=False)]
    check("variables", [variable.name for variable in tf.global_variables()])
    check("model", [variable.name for variable in framework.get_model_variables()])
    check("weights", [variable.name for variable in framework.get_variables_by_name("weights")])
    check("scope", [variable.name for variable in framework.get_variables("second")])
    check("suffix", [variable.name for variable in framework.get_variables_by_suffix("beta")])
    check("restore", [variable.name for variable in framework.get_variables_to_restore(exclude=["second", "stack"])])
    check("out", [tensor.name for tensor in tf.get_collection("out")])
    check("updates", [update.name for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
    check("losses", [loss.name for loss in tf.losses.get_regularization_losses()])
    loss = tf.reduce_mean(tf.square(logits)) + tf.losses.get_regularization_loss()
    step = framework.get_or_create_global_step()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {x: rng.randn(4, 8, 8, 3)}
        for index, value in enumerate(sess.run(parts, feeds)):
            check("part %d" % index, value)
        check("loss", sess.run([loss, step], feeds))
