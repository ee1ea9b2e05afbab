"""tf.contrib.layers.optimize_loss: by name, class and object, with decay, clipping and multipliers."""

import numpy as np

DIFFERENCES = {name: "placed beside gradients, whose nodes have other names" for name in ("*clip_by_global_norm/*", "*global_norm*/L2Loss*")}


def program(tf, check):
    rng = np.random.RandomState(3)
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    weights = tf.get_variable("weights", initializer=rng.randn(3, 2).astype(np.float32))
    bias = tf.get_variable("bias", initializer=np.zeros(2, np.float32))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) + bias - 1.0))
    step = tf.train.get_or_create_global_step()
    optimize = tf.contrib.layers.optimize_loss
    operations = [
        optimize(loss, step, 0.1, "SGD", clip_gradients=0.5, summaries=["loss", "gradients", "gradient_norm", "learning_rate"]),
        optimize(loss, step, 0.05, tf.train.AdamOptimizer, gradient_multipliers={"bias": 2.0}, name="second"),
        optimize(loss, None, None, lambda: tf.train.MomentumOptimizer(0.1, 0.9), learning_rate_decay_fn=None, variables=[weights], name="third", increment_global_step=False),
    ]
    check("variables", [variable.name for variable in tf.global_variables()])
    check("summaries", sorted(summary.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {x: rng.randn(4, 3)}
        for _ in range(3):
            for index, operation in enumerate(operations):
                check("loss %d" % index, sess.run(operation, feeds))
        check("trained", sess.run([weights, bias, step]))
    for bad in (lambda: optimize(loss, step, 0.1, "Nothing", name="bad"), lambda: optimize(loss, step, -1.0, "SGD", name="worse")):
        try:
            bad()
            check("refused", "no")
        except ValueError as error:
            check("refused", type(error).__name__)
