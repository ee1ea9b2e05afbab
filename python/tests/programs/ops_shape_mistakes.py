"""What is said of shapes that do not fit, with the node and its op."""

DIFFERENCES = {
    "ones*": "nodes of attempts",
    "x*": "nodes of attempts",
    "stack*": "nodes of attempts",
    "strided_slice*": "nodes of attempts",
    "y*": "nodes of attempts",
}


def program(tf, check):
    def said(action):
        try:
            action()
            return "nothing"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    x, y = tf.ones([2, 3], name="x"), tf.placeholder(tf.float32, [4], name="y")
    cases = [
        lambda: tf.matmul(x, x),
        lambda: x + y,
        lambda: tf.multiply(x, y, name="product"),
        lambda: tf.concat([x, tf.ones([3, 4])], 0),
        lambda: tf.stack([tf.ones([2]), tf.ones([3])]),
        lambda: tf.reshape(x, [4, 2]),
        lambda: tf.expand_dims(x, 5),
        lambda: tf.reduce_sum(x, axis=3),
        lambda: tf.squeeze(x, [0]),
        lambda: x[5],
        lambda: tf.equal(x, y),
    ]
    for index, case in enumerate(cases):
        check(f"{index}", said(case))
    check("bool", said(lambda: bool(x)))
    check("iterate", said(lambda: list(y)))
