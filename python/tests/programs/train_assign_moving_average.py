"""`assign_moving_average` as batch normalisation uses it, and the weighted one."""


def program(tf, check):
    if tf.__name__ == "tensorfleet":
        from tensorfleet.training import moving_averages
    else:
        from tensorflow.python.training import moving_averages

    for use_resource in (False, True):
        with tf.variable_scope("resource" if use_resource else "ref", use_resource=use_resource):
            mean = tf.get_variable("mean", [2], initializer=tf.zeros_initializer(), trainable=False)
            value = tf.constant([1.0, 2.0])
            plain = moving_averages.assign_moving_average(mean, value, 0.9, zero_debias=False)
            debiased = tf.get_variable("debiased", [2], initializer=tf.zeros_initializer(), trainable=False)
            update = moving_averages.assign_moving_average(debiased, value, 0.9)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for count in range(3):
                sess.run(plain)
                sess.run(update)
                check("%s %d" % (use_resource, count), sess.run([mean, debiased]))
    weighted = moving_averages.weighted_moving_average(tf.constant([2.0, 4.0]), 0.5, tf.constant([1.0, 3.0]))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in range(2):
            check("weighted %d" % count, sess.run(weighted))
