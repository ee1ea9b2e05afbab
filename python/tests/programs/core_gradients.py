"""tf.gradients: values, None, several, stops, given gradients, slices, second derivatives."""

DIFFERENCES = {"gradients*": "the library's gradient graphs are smaller", "*_grad*": "the same", "hessians*": "the same", "while*": "the same", "Reshape*": "numbered after it", "Shape*": "", "Size*": "", "TensorArray*": "", "strided_slice*": "", "concat*": "", "Less*": "", "add*": ""}


def program(tf, check):
    x = tf.constant([1.0, 2.0, 3.0])
    w = tf.Variable([1.0, 1.0, 2.0])
    r = tf.get_variable("r", [3], initializer=tf.ones_initializer(), use_resource=True)
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = tf.reduce_sum(x * w * r)
    rows = tf.gather(table, [0, 2, 0])
    unused = tf.constant(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        check("all", session.run(tf.gradients(y, [x, w, r])))
        check("none", tf.gradients(y, [unused]))
        check("zero", session.run(tf.gradients(y, [unused], unconnected_gradients=tf.UnconnectedGradients.ZERO)))
        check("several", session.run(tf.gradients([y, tf.reduce_sum(tf.square(w))], w)))
        check("given", session.run(tf.gradients(x * 3.0, x, grad_ys=[tf.constant([1.0, 10.0, 100.0])])))
        check("stopped", session.run(tf.gradients(x * tf.stop_gradient(x * x), x)))
        square = x * x
        check("stops", session.run(tf.gradients(square + x, x, stop_gradients=[square])))
        slices = tf.gradients(rows, table)[0]
        check("slices", [type(slices).__name__, list(session.run(slices)), session.run(tf.convert_to_tensor(slices))])
        cube = tf.reduce_sum(x**3.0)
        first = tf.gradients(cube, x)[0]
        check("second", session.run([first, tf.gradients(first, x)[0]]))
