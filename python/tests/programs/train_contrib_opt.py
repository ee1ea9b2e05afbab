"""Optimizers of `tf.contrib.opt`: lazy Adam, Nadam, weight decay, averages."""

import os

import numpy as np


def program(tf, check):
    opt = tf.contrib.opt
    decayed = opt.extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)
    for use_resource in (False, True):
        makers = (
            ("lazy", lambda: opt.LazyAdamOptimizer(0.1)),
            ("nadam", lambda: opt.NadamOptimizer(0.1)),
            ("momentumw", lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.9)),
            ("adamw", lambda: opt.AdamWOptimizer(0.01, 0.1)),
            ("adagradw", lambda: decayed(weight_decay=0.01, learning_rate=0.1)),
        )
        trains = []
        for name, make in makers:
            with tf.variable_scope("%s_%s" % (name, "resource" if use_resource else "ref"), use_resource=use_resource):
                w = tf.get_variable("w", initializer=tf.constant([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]]))
                b = tf.get_variable("b", initializer=tf.constant([0.1, -0.2]))
                out = tf.gather(w, [0, 2, 0]) + b
                # A gradient that does not depend on the weights: the decay and the gradient wait for nothing together.
                loss = tf.reduce_sum(out * [1.0, -0.5]) if name.endswith("w") else tf.reduce_sum(tf.square(out))
                trains.append((w, b, make().minimize(loss, var_list=[w, b])))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for count in range(3):
                for w, b, train in trains:
                    sess.run(train)
                    check("%s %d" % (w.name, count), [np.asarray(value) for value in sess.run([w, b])])
    x = tf.Variable([4.0, 8.0], name="x")
    averaged = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1), average_decay=0.5)
    try:
        averaged.swapping_saver()
    except RuntimeError as error:
        check("early", str(error))
    train = averaged.minimize(tf.reduce_sum(tf.square(x)), var_list=[x])
    saver = averaged.swapping_saver([x, averaged._ema.average(x)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            sess.run(train)
        check("averaged", sess.run([x, averaged._ema.average(x)]))
        path = saver.save(sess, os.path.join(os.environ["DIFFERENTIAL_DIRECTORY"], "swapped"))
        check("saved", tf.train.load_checkpoint(path).get_tensor("x"))


DIFFERENCES = {
    name: "TensorFlow copies the nodes of an initial value that reads a variable" for name in ("cond*", "x/*")
}
DIFFERENCES["swapping_saver/*"] = "the nodes of savers are compared elsewhere"
