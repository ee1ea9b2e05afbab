"""Embedding lookups from one table and from parts, sparse ones, and their gradients."""

import numpy as np


def program(tf, check):
    values = np.arange(18, dtype=np.float32).reshape(6, 3) / 10
    ids = tf.constant([[0, 5], [3, 3]], tf.int64, name="ids")
    one = tf.get_variable("one", initializer=values)
    resource = tf.get_variable("resource", initializer=values, use_resource=True)
    parts = tf.get_variable("parts", [6, 3], initializer=tf.constant_initializer(0.25), partitioner=tf.fixed_size_partitioner(2))
    split = [tf.constant(values[0::2]), tf.constant(values[1::2])]
    sparse = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], tf.constant([1, 4, 2], tf.int64), [3, 3])
    weights = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], [0.5, 2.0, 1.5], [3, 3])
    results = [
        tf.nn.embedding_lookup(one, ids),
        tf.nn.embedding_lookup(one, [0, 1], max_norm=1.0),
        tf.nn.embedding_lookup(resource, ids),
        tf.nn.embedding_lookup(parts, ids, partition_strategy="div"),
        tf.nn.embedding_lookup(split, ids),
        tf.nn.embedding_lookup(split, ids, max_norm=0.5),
    ]
    for combiner in ("sum", "mean", "sqrtn"):
        results.append(tf.nn.embedding_lookup_sparse(one, sparse, None, combiner=combiner))
        results.append(tf.nn.embedding_lookup_sparse(one, sparse, weights, combiner=combiner))
    safe = tf.nn.safe_embedding_lookup_sparse(one, sparse, weights, default_id=0)
    gradients = tf.gradients([results[0], results[7]], [one])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for index, result in enumerate(results):
            check("result %d" % index, sess.run(result))
        check("safe", sess.run(safe))
        check("gradient", sess.run(tf.convert_to_tensor(gradients[0])))
        check("kind", type(gradients[0]).__name__)
