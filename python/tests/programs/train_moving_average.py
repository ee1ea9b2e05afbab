"""Moving averages of variables and computed values: names, values, what to restore."""


def program(tf, check):
    w = tf.Variable([1.0, 2.0], name="w")
    b = tf.get_variable("scope/b", initializer=tf.constant(3.0), use_resource=True)
    step = tf.train.get_or_create_global_step()
    square = tf.square(w, name="square")
    ema = tf.train.ExponentialMovingAverage(0.9)
    follow = ema.apply([w, b, square])
    debiased = tf.train.ExponentialMovingAverage(0.8, num_updates=step, zero_debias=True, name="Debiased")
    check("average_name before", debiased.average_name(w))
    with tf.control_dependencies([follow]):
        both = debiased.apply([w, square])
    change = tf.group(w.assign_add([1.0, -1.0]), b.assign_add(1.0), step.assign_add(1))
    check("averages", [ema.average(item).name for item in (w, b, square)])
    check("names", [ema.average_name(item) for item in (w, b)])
    check("missing", ema.average(step))
    check("restore", sorted((name, item.name) for name, item in ema.variables_to_restore().items()))
    check("restore some", sorted((name, item.name) for name, item in ema.variables_to_restore([w]).items()))
    check("collection", [item.name for item in tf.moving_average_variables()])
    check("variables", sorted(item.name for item in tf.global_variables()))
    try:
        ema.apply([tf.Variable(1, name="integer")])
    except TypeError as error:
        check("integer", str(error))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in range(3):
            sess.run(both)
            check("values %d" % count, sess.run([ema.average(w), ema.average(b), ema.average(square), debiased.average(w), debiased.average(square)]))
            sess.run(change)


DIFFERENCES = {
    "cond*": "TensorFlow copies the nodes of an initial value that reads a variable, although it is guarded already",
    "w/*": "TensorFlow copies the nodes of an initial value that reads a variable, although it is guarded already",
}
