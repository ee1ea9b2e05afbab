"""Windows, frames, overlaps, mel weights, and sets."""

import numpy as np


def program(tf, check):
    found = [("hann", tf.signal.hann_window(8)), ("hamming", tf.signal.hamming_window(7, periodic=False)), ("frame", tf.signal.frame([1.0, 2.0, 3.0, 4.0, 5.0], 2, 1))]
    found += [("padded", tf.signal.frame(tf.reshape(tf.range(24), [2, 12]), 4, 3, pad_end=True, pad_value=9)), ("overlap", tf.signal.overlap_and_add([[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]], 2))]
    found += [("mel", tf.signal.linear_to_mel_weight_matrix(6, 17))]
    for name, made in (("intersection", tf.sets.intersection([[1, 2]], [[2, 3]])), ("difference", tf.sets.difference([[1, 2]], [[2, 3]])), ("union", tf.sets.union([[1, 2]], [[2, 3]]))):
        found.append((name, [made.indices, made.values, made.dense_shape]))
    x = tf.constant(np.arange(400).reshape(1, 20, 20, 1) / 400.0, tf.float32)
    found += [("ssim", tf.image.ssim(x, x * 0.9 + 0.05, 1.0)), ("normalize", tf.linalg.normalize([[3.0, 4.0], [6.0, 8.0]], axis=1))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
