"""Sparse tensors."""


def program(tf, check):
    a = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    i = tf.SparseTensor([[0, 1], [1, 2]], [1, 3], [2, 3])
    found = [("dense", tf.sparse_tensor_to_dense(a)), ("default", tf.sparse_tensor_to_dense(a, default_value=-1.0)), ("to_dense", tf.sparse_to_dense([[0, 1]], [2, 2], 5.0)), ("matmul", tf.sparse_tensor_dense_matmul(a, tf.ones([3, 2])))]
    found += [("adjoint", tf.sparse_tensor_dense_matmul(a, tf.ones([2, 2]), adjoint_a=True)), ("sum", tf.sparse_reduce_sum(a)), ("sum axis", tf.sparse_reduce_sum(a, axis=1, keepdims=True)), ("add", tf.sparse_add(a, tf.ones([2, 3]))), ("shape", tf.shape(a)), ("size", tf.size(a))]
    for name, tensor in (("reorder", tf.sparse_reorder(a)), ("reshape", tf.sparse_reshape(a, [3, -1])), ("retain", tf.sparse_retain(a, [True, False])), ("transpose", tf.sparse_transpose(a)), ("reset", tf.sparse_reset_shape(a)), ("reset to", tf.sparse_reset_shape(a, [4, 4]))):
        found.append((name, [tensor.indices, tensor.values, tensor.dense_shape]))
    for name, tensor in (("merge", tf.sparse_merge(i, a, 5)), ("from dense", tf.sparse.from_dense([[0, 1], [2, 0]])), ("eye", tf.sparse.eye(3)), ("expand", tf.sparse.expand_dims(a, 1)), ("cast", tf.cast(a, tf.int32))):
        found.append((name, [tensor.indices, tensor.values, tensor.dense_shape]))
    filled, empty = tf.sparse_fill_empty_rows(tf.SparseTensor([[1, 0]], [7], [3, 2]), 0)
    found += [("filled", [filled.indices, filled.values, empty]), ("indicator", tf.sparse_to_indicator(i, 4))]
    masked = tf.sparse_mask(tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 3])), [3])
    found += [("masked", [masked.indices, masked.values])]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
