"""Tensors of one value, and their nodes for small, large and dynamic shapes."""


def program(tf, check):
    n = tf.placeholder_with_default(2, [])
    found = [("zeros", tf.zeros([2, 3])), ("int", tf.zeros([2], tf.int32)), ("bool", tf.zeros([2], tf.bool)), ("text", tf.zeros([2], tf.string))]
    found += [("ones", tf.ones([2, 3])), ("ones bool", tf.ones([1], tf.bool)), ("scalar", tf.ones([])), ("large", tf.zeros([40, 40])), ("large ones", tf.ones([1001]))]
    found += [("dynamic", tf.zeros([n, 3])), ("dynamic first", tf.ones([3, n])), ("vector", tf.zeros(tf.stack([n, n]))), ("shape", tf.zeros(tf.TensorShape([2])))]
    found += [("number", tf.zeros(3)), ("fill", tf.fill([2, 2], 7)), ("fill dynamic", tf.fill([n], "x")), ("range", tf.range(5)), ("range 2", tf.range(1, 7, 2))]
    found += [("range float", tf.range(0.0, 1.0, 0.25)), ("range mixed", tf.range(3.0)), ("range dtype", tf.range(3, dtype=tf.int64)), ("range dynamic", tf.range(n))]
    found += [("linspace", tf.linspace(0.0, 1.0, 5)), ("lin_space", tf.lin_space(0.0, 1.0, 3)), ("one_hot", tf.one_hot([0, 2, -1], 3)), ("one_hot dtype", tf.one_hot([1], 2, dtype=tf.int32))]
    found += [("one_hot values", tf.one_hot([1, 0], 2, on_value=5.0, off_value=-1.0, axis=0)), ("repeat", tf.constant(1.0, shape=[2, 2])), ("eye", tf.eye(3))]
    found += [("eye wide", tf.eye(2, 3)), ("eye batch", tf.eye(2, batch_shape=[2])), ("eye dynamic", tf.eye(n)), ("mask", tf.sequence_mask([1, 3], 4)), ("mask max", tf.sequence_mask([1, 3]))]
    found += [("mask float", tf.sequence_mask([[1], [2]], 3, dtype=tf.float32))]
    found += [(f"grid {index}", tensor) for index, tensor in enumerate(tf.meshgrid([1, 2, 3], [4, 5]))]
    found += [(f"grid ij {index}", tensor) for index, tensor in enumerate(tf.meshgrid([1, 2], [3, 4], [5], indexing="ij"))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
