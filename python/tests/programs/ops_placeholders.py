"""Placeholders of all kinds, fed."""


def program(tf, check):
    a = tf.placeholder("float", [None, 2], name="a")
    b = tf.placeholder(tf.int32)
    c = tf.placeholder_with_default(tf.constant([1, 2]), [None])
    s = tf.sparse_placeholder(tf.float32, name="s")
    f = tf.sparse_placeholder(tf.float32, [2, 3])
    p = tf.sparse_placeholder(tf.float32, shape=[None, 3])
    check("shown", [str(a), repr(b), str(c.shape), str(s.dense_shape.shape), str(f.shape), str(p.indices.shape)])
    total = tf.reduce_sum(a) + tf.cast(tf.reduce_sum(b), tf.float32)
    dense = [tf.sparse_tensor_to_dense(s), tf.sparse_tensor_to_dense(p)]
    with tf.Session() as session:
        check("total", session.run(total, {a: [[1, 2]], b: 3}))
        check("default", session.run(c * 2))
        check("fed", session.run(c * 2, {c: [5]}))
        value = tf.SparseTensorValue([[0, 1]], [4.0], [2, 3])
        check("sparse", session.run(dense, {s: value, p: value}))
