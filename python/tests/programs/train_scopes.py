"""Optimizers inside name and variable scopes, several on the same variables, and partitioned variables."""


def program(tf, check):
    with tf.name_scope("ns"):
        v = tf.Variable([1.0, 2.0], name="v")
        pairs = [(tf.constant([1.0, 1.0]), v)]
        adam = tf.train.AdamOptimizer(0.1)
        adam.apply_gradients(pairs)
        adam.apply_gradients(pairs)
        tf.train.AdamOptimizer(0.1).apply_gradients(pairs)
        tf.train.AdamOptimizer(0.1, name="Mine").apply_gradients(pairs, name="train")
        with tf.variable_scope("vs"):
            tf.train.AdagradOptimizer(0.1, use_locking=True).apply_gradients(pairs)
            tf.train.MomentumOptimizer(tf.constant(0.1, name="rate"), 0.9).apply_gradients(pairs)
    with tf.variable_scope("parts", partitioner=lambda shape, dtype: [2] + [1] * (shape.ndims - 1)):
        w = tf.get_variable("w", [3, 2], initializer=tf.constant_initializer(2.0))
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(w, [0, 2])))
        optimizer = tf.train.AdagradOptimizer(0.5)
        train = optimizer.minimize(loss, var_list=list(w))
    with tf.variable_scope("taken", reuse=tf.AUTO_REUSE):
        u = tf.get_variable("u", initializer=tf.constant(1.0))
    with tf.variable_scope("taken", reuse=True):
        try:
            tf.train.AdamOptimizer(0.1).apply_gradients([(tf.constant(1.0), u)])
            check("reuse", "nothing raised")
        except ValueError as error:
            check("reuse", str(error))
    for part in w:
        slot = optimizer.get_slot(part, "accumulator")
        check(part.name, [slot.name, slot._get_save_slice_info().full_name, slot._get_save_slice_info().spec])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in range(2):
            sess.run(train)
        check("values", sess.run(w.as_tensor()))
    check("variables", [var.name for var in tf.global_variables()])
