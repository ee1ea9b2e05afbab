"""The names and orders of arguments of TensorFlow 0.x, which 1.15 does not have and programs still use."""

import unittest

import numpy as np
import tensorfleet as tf


class LegacyNames(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def value(self, tensor):
        with tf.Session() as session:
            return session.run(tensor)

    def test_arithmetic(self):
        x = tf.constant([1.0, 4.0])
        self.assertEqual(self.value([tf.mul(x, 2.0), tf.sub(x, 1.0), tf.neg(x), tf.inv(x)])[3].tolist(), [1.0, 0.25])
        self.assertEqual(tf.mul(x, x).op.type, "Mul")
        self.assertEqual(tf.neg(x, name="less").name, "less:0")
        self.assertEqual(self.value(tf.complex_abs(tf.complex(3.0, 4.0))), 5.0)
        self.assertEqual(self.value(tf.select([True, False], x, -x)).tolist(), [1.0, -4.0])

    def test_pack_and_unpack(self):
        a, b = tf.unpack(tf.constant([[1, 2], [3, 4]]))
        self.assertEqual(a.name, "unpack:0")
        packed = tf.pack([a, b])
        self.assertEqual(packed.name, "pack:0")
        self.assertEqual(self.value(packed).tolist(), [[1, 2], [3, 4]])

    def test_concat_in_both_orders(self):
        a, b = tf.constant([[1], [2]]), tf.constant([[3], [4]])
        for joined in (tf.concat(1, [a, b]), tf.concat([a, b], 1), tf.concat(axis=1, values=[a, b]), tf.concat_v2([a, b], 1)):
            self.assertEqual(self.value(joined).tolist(), [[1, 3], [2, 4]])

    def test_split_in_both_orders(self):
        a = tf.constant([[1, 2], [3, 4]])
        for parts in (tf.split(1, 2, a), tf.split(a, 2, 1), tf.split(a, [1, 1], axis=1), tf.split_v(a, [1, 1], 1)):
            self.assertEqual([part.tolist() for part in self.value(parts)], [[[1], [3]], [[2], [4]]])

    def test_batches_of_matrices(self):
        a = tf.constant(np.arange(8, dtype=np.float32).reshape(2, 2, 2) + np.eye(2, dtype=np.float32) * 9)
        product = tf.batch_matmul(a, tf.batch_matrix_inverse(a))
        self.assertEqual(product.op.type, "BatchMatMul")
        np.testing.assert_allclose(self.value(product), [np.eye(2)] * 2, atol=1e-5)
        self.assertEqual(self.value(tf.batch_matrix_transpose(a)).shape, (2, 2, 2))
        self.assertEqual(self.value(tf.batch_matrix_diag_part(a)).shape, (2, 2))

    def test_old_arguments(self):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(self.value(tf.reduce_sum(x, reduction_indices=[1], keep_dims=True)).tolist(), [[3.0], [7.0]])
        self.assertEqual(self.value(tf.listdiff([1, 2, 3], [2])).out.tolist(), [1, 3])


if __name__ == "__main__":
    unittest.main()
