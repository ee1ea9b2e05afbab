"""A regression as programs of 2016 write it: schedule, clipping, averages, a step counter."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(0)
    data = rng.randn(20, 3).astype("float32")
    target = data.dot([[1.0], [-2.0], [0.5]]).astype("float32")
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    w = tf.Variable(tf.zeros([3, 1]), name="w")
    b = tf.Variable(tf.zeros([1]), name="b")
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    step = tf.Variable(0, name="step", trainable=False)
    rate = tf.train.exponential_decay(0.1, step, 5, 0.9, staircase=True)
    optimizer = tf.train.AdamOptimizer(rate)
    pairs = optimizer.compute_gradients(loss)
    pairs = [(tf.clip_by_norm(grad, 1.0), var) for grad, var in pairs]
    apply_op = optimizer.apply_gradients(pairs, global_step=step)
    averages = tf.train.ExponentialMovingAverage(0.9, step)
    averages_op = averages.apply(tf.trainable_variables())
    with tf.control_dependencies([apply_op, averages_op]):
        train = tf.no_op(name="train")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            sess.run(train, {x: data, y: target})
        check("loss", sess.run(loss, {x: data, y: target}))
        check("weights", sess.run([w, b, step, rate]))
        check("slots", sess.run([optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")]))


DIFFERENCES = {
    name: "TensorFlow copies the nodes of an initial value that reads a variable, although it is guarded already" for name in ("cond*", "b/*", "w/*")
}
