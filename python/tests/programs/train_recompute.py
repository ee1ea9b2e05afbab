"""`recompute_grad`: gradients inside a gradient."""


def program(tf, check):
    with tf.variable_scope("", use_resource=True, reuse=tf.AUTO_REUSE):

        def layer(x):
            w = tf.get_variable("w", initializer=tf.constant([2.0, 3.0]))
            return tf.tanh(x * w) * x

        x = tf.constant([0.5, -0.25])
        plain = layer(x)
        recomputed = tf.recompute_grad(layer)(x)
        w = tf.get_variable("w", initializer=tf.constant([2.0, 3.0]))
        gradients = [tf.gradients(plain, [x, w]), tf.gradients(recomputed, [x, w])]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("forward", sess.run([plain, recomputed]))
        check("plain", sess.run(gradients[0]))
        check("recomputed", sess.run(gradients[1]))


DIFFERENCES = {"Identity*": "a node that TensorFlow leaves of its search for variables, and the numbers in names of custom gradients"}
