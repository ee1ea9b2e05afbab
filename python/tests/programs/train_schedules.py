"""Learning rate schedules that fall smoothly or in steps, over several steps."""


def program(tf, check):
    step = tf.train.get_or_create_global_step()
    rates = {
        "exponential": tf.train.exponential_decay(0.5, step, 10, 0.96),
        "staircase": tf.train.exponential_decay(0.5, step, 10, 0.96, staircase=True, name="stairs"),
        "natural": tf.train.natural_exp_decay(0.5, step, 10, 0.3),
        "natural_staircase": tf.train.natural_exp_decay(0.5, step, 10, 0.3, staircase=True),
        "inverse": tf.train.inverse_time_decay(0.5, step, 10, 0.3),
        "inverse_staircase": tf.train.inverse_time_decay(0.5, step, 10, 0.3, staircase=True, name="inverse"),
        "polynomial": tf.train.polynomial_decay(0.5, step, 20, 0.1, power=2.0),
        "tensor": tf.train.exponential_decay(tf.constant(0.5, tf.float64), step, tf.constant(10), tf.constant(0.9, tf.float64)),
    }
    advance = tf.assign_add(step, 7)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in range(5):
            for name in sorted(rates):
                check("%s %d" % (name, count), sess.run(rates[name]))
            sess.run(advance)
