"""Errors for values of the wrong type, missing arguments and wrong axes."""

DIFFERENCES = {
    "Const*": "TensorFlow leaves nodes of attempts behind that differ after errors",
}


def program(tf, check):
    def said(action):
        try:
            action()
            return "nothing"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    x = tf.ones([2], name="x")
    cases = [
        lambda: tf.add(x, tf.constant([1, 2])),
        lambda: tf.add(x, "a"),
        lambda: tf.matmul(x, x, transpose_a=True, adjoint_a=True),
        lambda: tf.expand_dims(x),
        lambda: tf.reduce_sum(x, axis=0, reduction_indices=0),
        lambda: tf.stack([x, x], axis=4),
        lambda: tf.unstack(tf.placeholder(tf.float32, [None, 2])),
        lambda: tf.where(tf.constant([True]), x),
        lambda: tf.boolean_mask(x, tf.constant(True)),
        lambda: tf.boolean_mask(x, [True, False, True]),
        lambda: tf.placeholder("nope"),
        lambda: tf.add_n([]),
        lambda: tf.truediv(tf.constant(1), tf.constant(1.0)),
        lambda: tf.pad(x, [[1, 1]], "X"),
        lambda: tf.clip_by_global_norm("a", 1.0),
        lambda: tf.constant(1.5, dtype=tf.int32),
        lambda: tf.constant([1, 2], dtype=tf.string),
        lambda: tf.raw_ops.Abs(x),
        lambda: tf.meshgrid([1], [2], indexing="zz"),
        lambda: tf.random_uniform([2], dtype=tf.int32),
        lambda: tf.random_uniform([2], dtype=tf.string),
        lambda: tf.sparse_tensor_to_dense(x),
        lambda: tf.complex(tf.constant(1.0), tf.constant(1.0, tf.float64)),
        lambda: tf.scalar_mul([1.0, 2.0], x),
        lambda: tf.strings.format("{} {}", tf.constant(1)),
        lambda: tf.squeeze(x, axis=0, squeeze_dims=[0]),
        lambda: tf.image.central_crop(tf.zeros([2, 2, 3]), 2.0),
        lambda: tf.image.crop_to_bounding_box(tf.zeros([2, 2, 3]), 1, 1, 2, 2),
        lambda: tf.image.resize_images(x, [2, 2]),
    ]
    for index, case in enumerate(cases):
        check(f"{index}", said(case))
