"""What becomes a tensor, of which type, and what does not."""


def program(tf, check):
    import numpy as np

    values = [
        1,
        2**40,
        1.5,
        True,
        "text",
        b"bytes",
        1 + 2j,
        [1, 2],
        [1.0, 2],
        [[1, 2], [3, 4]],
        np.float64(1.0),
        np.arange(3),
        np.arange(3, dtype=np.int8),
        np.array(["x", "y"]),
        [np.float32(1.0), 2.0],
        (1, 2),
        [],
        tf.TensorShape([1, 2]),
        tf.Dimension(4),
    ]
    check("types", [(tf.convert_to_tensor(value).dtype.name, str(tf.convert_to_tensor(value).shape)) for value in values])
    t = tf.constant(2.0)
    check("packed", [tf.convert_to_tensor([t, 1.0]).op.type, str(tf.convert_to_tensor([[t, 1.0], [3.0, t]]).shape)])
    check("asked", [tf.convert_to_tensor(1, dtype=tf.float32).dtype.name, tf.convert_to_tensor([1, 2], dtype=tf.int64).dtype.name, tf.convert_to_tensor(3, preferred_dtype=tf.float64).dtype.name])
    mistakes = []
    for attempt in (
        lambda: tf.constant(1.5, dtype=tf.int32),
        lambda: tf.constant("a", dtype=tf.float32),
        lambda: tf.constant([1, 2, 3], shape=[2]),
        lambda: tf.convert_to_tensor(t, dtype=tf.int32),
        lambda: tf.constant(None),
        lambda: tf.add(t, "a"),
        lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])),
        lambda: tf.ones([2]) + tf.ones([3]),
        lambda: tf.add(tf.constant(1), tf.constant(1.0)),
        lambda: tf.reshape(tf.ones([4]), [3]),
        lambda: bool(t),
        lambda: len(t),
        lambda: list(t),
    ):
        try:
            attempt()
            mistakes.append("fine")
        except (TypeError, ValueError) as error:
            mistakes.append(type(error).__name__)
    check("mistakes", mistakes)
    check("constants", [str(tf.constant(7, shape=[2, 2]).shape), tf.constant([1, 2], tf.float16).dtype.name])
    with tf.Session() as session:
        check("repeated", session.run(tf.constant([1, 2], shape=[5])))
        check("values", session.run([tf.convert_to_tensor([t, 1.0]), tf.constant(np.arange(6).reshape(2, 3))]))
