"""Second derivatives, unconnected gradients, stopped gradients."""


def program(tf, check):
    x = tf.constant([1.0, 2.0, 3.0], name="x")
    y = tf.reduce_sum(x * x * x) + x[0] * x[1]
    other = tf.constant([1.0, 2.0])
    hessian = tf.hessians(y, x)[0]
    zeros = tf.gradients(y, [x, other], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    none = tf.gradients(y, [other])
    square = tf.square(x)
    stopped = tf.gradients(square * x, x, stop_gradients=[square])
    given = tf.gradients([square, x], x, grad_ys=[tf.constant([1.0, 0.0, 2.0]), None])
    check("none", none[0])
    with tf.Session() as sess:
        check("hessian", sess.run(hessian))
        check("zeros", sess.run(zeros))
        check("stopped", sess.run(stopped))
        check("given", sess.run(given))


DIFFERENCES = {"*": "gradients in a scope of their own, and a loop over rows"}
