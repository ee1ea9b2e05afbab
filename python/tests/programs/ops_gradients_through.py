"""Gradients of functions of this area, by value."""


def program(tf, check):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    w = tf.constant([[0.5, -0.5], [1.5, 2.0]])
    losses = [tf.reduce_sum(tf.square(x * w)), tf.reduce_mean(tf.exp(x) / w), tf.reduce_logsumexp(x), tf.reduce_max(x * w), tf.norm(x), tf.reduce_sum(tf.clip_by_norm(x, 1.0))]
    losses += [tf.reduce_sum(tf.matmul(x, w, transpose_a=True)), tf.reduce_sum(tf.tensordot(x, w, 1)), tf.reduce_sum(tf.einsum("ij,kj->ik", x, w) ** 2), tf.reduce_sum(tf.gather(x, [0, 0]) * w), tf.reduce_sum(tf.boolean_mask(x, [True, False]) ** 3)]
    losses += [tf.reduce_sum(tf.concat([x, x * 2], 1)), tf.reduce_sum(tf.stack([x, x ** 2])[1]), tf.reduce_sum(tf.unstack(x)[1] ** 2), tf.reduce_sum(tf.pad(x, [[1, 1], [0, 0]]) ** 2), tf.reduce_sum(tf.where(x > 2.0, x ** 2, x))]
    losses += [tf.reduce_sum(tf.segment_sum(x, [0, 0]) ** 2), tf.reduce_sum(tf.cumsum(x) ** 2), tf.math.reduce_variance(x), tf.matrix_determinant(x), tf.reduce_sum(tf.matrix_inverse(x)), tf.reduce_sum(tf.sigmoid(x)), tf.reduce_sum(tf.transpose(x)[0] * 3.0)]
    found = [(str(index), tf.gradients(loss, x)[0]) for index, loss in enumerate(losses)]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
