"""What is said of types that do not fit, lists that are no tensors and arguments that are missing."""

DIFFERENCES = {
    "Const*": "nodes of attempts",
    "*/*": "nodes of attempts",
    "ones*": "nodes of attempts",
}


def program(tf, check):
    def said(action):
        try:
            action()
            return "nothing"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    f, i, t = tf.constant([1.0, 2.0], name="f"), tf.constant([1, 2], name="i"), tf.constant(["a"], name="t")
    cases = [
        lambda: tf.concat([f, i], 0),
        lambda: tf.stack([f, i]),
        lambda: tf.add_n([f, i]),
        lambda: tf.string_join([i]),
        lambda: tf.concat([], 0),
        lambda: tf.matmul([[1, 2]], [[3.0], [4.0]]),
        lambda: f + i,
        lambda: i + 1.5,
        lambda: 1.5 + i,
        lambda: i * 2.5,
        lambda: tf.sqrt([1, 2]),
        lambda: tf.exp(i),
        lambda: tf.logical_and([1], [2]),
        lambda: tf.reduce_all(i),
        lambda: tf.reshape(f, "a"),
        lambda: tf.add(None, 1),
        lambda: tf.convert_to_tensor(None),
        lambda: tf.convert_to_tensor([1, [2, 3]]),
        lambda: tf.convert_to_tensor([[1], [2, 3]]),
        lambda: tf.convert_to_tensor({"a": 1}),
        lambda: tf.constant([i[0]]),
        lambda: tf.constant([1, 2, 3], shape=[2]),
        lambda: tf.constant([1, "a"]),
        lambda: tf.convert_to_tensor(i, dtype=tf.float32),
        lambda: tf.range("a"),
        lambda: tf.fill([2], None),
        lambda: tf.SparseTensor([[0, 1]], [1.0, 2.0], [2, 3]),
        lambda: tf.strings.length(5),
        lambda: tf.random_normal([2], stddev="a"),
        lambda: tf.random_normal([2], dtype=tf.int32),
        lambda: tf.image.resize_images(tf.ones([1, 2, 2, 1]), [2]),
        lambda: tf.add(1),
        lambda: tf.constant(1, foo=2),
    ]
    for index, case in enumerate(cases):
        check(f"{index}", said(case))
