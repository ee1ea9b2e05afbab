"""Gradients that programs define: registered ones, overridden ones, `custom_gradient`."""


def program(tf, check):
    @tf.RegisterGradient("TrainCustomSquare")
    def square_gradient(op, grad):
        return 10.0 * grad * op.inputs[0]

    @tf.RegisterGradient("TrainCustomSum")
    def sum_gradient(op, grad):
        return [tf.ones_like(op.inputs[0]) * grad * 3.0, None]

    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)

        def grad(dy):
            return dy * (1 - 1 / (1 + e))

        return tf.log(1 + e), grad

    @tf.custom_gradient
    def both(x, y):
        def grad(dx, dy):
            return dx + dy, 7.0 * dy

        return (x * 2.0, x * y), grad

    @tf.custom_gradient
    def with_variable(x):
        v = tf.get_variable("v", initializer=tf.constant(2.0), use_resource=True)

        def grad(dy, variables=None):
            return dy * 5.0, [tf.reduce_sum(dy) * 100.0 for _ in variables]

        return x * v, grad

    graph = tf.get_default_graph()
    x = tf.Variable([1.0, 2.0], name="x")
    with graph.gradient_override_map({"Square": "TrainCustomSquare", "Sum": "TrainCustomSum"}):
        overridden = tf.reduce_sum(tf.square(x))
    plain = tf.reduce_sum(tf.square(x))
    with graph.gradient_override_map({"Sign": "Identity"}):
        straight = tf.sign(x * 3.0)
    softplus = log1pexp(tf.constant(100.0) * x)
    doubled, product = both(x, tf.constant([3.0, 4.0]))
    with tf.variable_scope("", use_resource=True):
        scaled = with_variable(x)
        passed = tf.grad_pass_through(tf.round)(x * 0.3)
    grads = {
        "overridden": tf.gradients(overridden, x),
        "plain": tf.gradients(plain, x),
        "straight": tf.gradients(straight, x),
        "softplus": tf.gradients(softplus, x),
        "both": tf.gradients([doubled, product], x),
        "first": tf.gradients(doubled, x),
        "variable": tf.gradients(scaled, [x] + [var for var in tf.trainable_variables() if var.name == "v:0"]),
        "passed": tf.gradients(passed, x),
        "second": tf.gradients(tf.gradients(log1pexp(x), x)[0], x),
    }
    in_loop = tf.while_loop(lambda i, acc: i < 3, lambda i, acc: (i + 1, log1pexp(acc)), [tf.constant(0), x])[1]
    grads["loop"] = tf.gradients(in_loop, x)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for name in sorted(grads):
            check(name, sess.run(grads[name]))
        check("forward", sess.run([softplus, doubled, product, scaled, passed, in_loop]))

    @tf.RegisterGradient("TrainCustomBroken")
    def broken(op, grad):
        raise RuntimeError("in the gradient of " + op.type)

    @tf.RegisterGradient("TrainCustomTooMany")
    def too_many(op, grad):
        return grad, grad

    for name in ("TrainCustomBroken", "TrainCustomTooMany", "TrainCustomUnknown"):
        with graph.gradient_override_map({"Exp": name}):
            y = tf.exp(x)
        try:
            tf.gradients(y, x)
        except Exception as error:
            check(name, [type(error).__name__, str(error).split(" for op ")[0].split(" (op type")[0]])
    try:
        tf.RegisterGradient("TrainCustomSquare")(square_gradient)
    except KeyError as error:
        check("twice", str(error).split("!")[0])


DIFFERENCES = {
    "Identity": "a node that TensorFlow leaves of its search for variables",
    "Identity_*": "a node that TensorFlow leaves of its search for variables",
    "IdentityN*": "the names of custom gradients have other numbers",
    "while*": "nodes of loops",
}
