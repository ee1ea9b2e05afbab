"""The global step and its helpers."""


def program(tf, check):
    check("none", tf.train.get_global_step())
    with tf.name_scope("outside"), tf.variable_scope("scope"):
        pass
    step = tf.train.create_global_step()
    check("name", step.name)
    check("dtype", step.dtype.base_dtype.name)
    check("same", tf.train.get_or_create_global_step() is step)
    check("collection", [item.name for item in tf.get_collection(tf.GraphKeys.GLOBAL_STEP)])
    check("trainable", [item.name for item in tf.trainable_variables()])
    try:
        tf.train.create_global_step()
    except ValueError as error:
        check("twice", str(error))
    for name, tensor in (("float", tf.constant(1.0)), ("vector", tf.constant([1, 2])), ("text", "x")):
        try:
            tf.train.assert_global_step(tensor)
        except TypeError as error:
            check(name, str(error))
    add = tf.assign_add(step, 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(add)
        check("value", tf.train.global_step(sess, step))
    other = tf.Graph()
    with other.as_default():
        mine = tf.Variable(5, name="global_step", trainable=False)
        check("found by name", tf.train.get_global_step().name)
