def program(tf, check):
    dense = tf.ConditionalAccumulator(tf.float32, shape=[2])
    total = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM", name="total")
    sparse = tf.SparseConditionalAccumulator(tf.float32)
    apply = [
        dense.apply_grad([1.0, 2.0]),
        dense.apply_grad([3.0, 4.0], local_step=1),
        total.apply_grad(2.0),
        total.apply_grad(5.0),
        sparse.apply_grad([0], [[1.0]]),
        sparse.apply_indexed_slices_grad(tf.IndexedSlices(tf.constant([[3.0]]), tf.constant([1], tf.int64))),
    ]
    take = [dense.take_grad(2), total.take_grad(2), sparse.take_grad(2)]
    counts = [dense.num_accumulated(), total.num_accumulated(), sparse.num_accumulated()]
    step = dense.set_global_step(5)
    with tf.Session() as session:
        for op in apply:
            session.run(op)
        check("counts", session.run(counts))
        check("taken", session.run(take))
        session.run(step)
        session.run(apply[0])
        check("too old", session.run(counts[0]))
    check("names", [dense.name, dense.dtype.name, sparse.name])
