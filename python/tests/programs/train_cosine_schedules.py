"""Schedules along a cosine, and the polynomial one that starts over."""


def program(tf, check):
    step = tf.placeholder(tf.int64, [], name="step")
    rates = {
        "cosine": tf.train.cosine_decay(0.5, step, 20, alpha=0.1),
        "linear_cosine": tf.train.linear_cosine_decay(0.5, step, 20, num_periods=1.5, alpha=0.2, beta=0.01),
        "restarts": tf.train.cosine_decay_restarts(0.5, step, 5, t_mul=2.0, m_mul=0.9, alpha=0.05),
        "even_restarts": tf.train.cosine_decay_restarts(0.5, step, 5, t_mul=1.0, name="even"),
        "cycle": tf.train.polynomial_decay(0.5, step, 6, 0.1, cycle=True),
    }
    tf.set_random_seed(3)
    noisy = tf.train.noisy_linear_cosine_decay(0.5, step, 20)
    with tf.Session() as sess:
        for count in (0, 3, 6, 14, 30):
            for name in sorted(rates):
                check("%s %d" % (name, count), sess.run(rates[name], {step: count}))
        check("noisy", sess.run(noisy, {step: 4}).shape)
