"""Functions of reference and resource variables."""


def program(tf, check):
    found = []
    for kind in (False, True):
        with tf.variable_scope(f"kind{int(kind)}", use_resource=kind):
            v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]])
            n = tf.get_variable("n", initializer=[1, 0], trainable=False)
            found += [tf.gather(v, [1, 0]), tf.gather(v, [1], axis=1), tf.gather_nd(v, [[0, 1]]), tf.shape(v), tf.size(v), tf.rank(v), tf.zeros_like(v), tf.ones_like(v)]
            found += [tf.reduce_sum(v), tf.reduce_mean(v, 0), tf.matmul(v, v), tf.concat([v, v], 0), tf.stack([v, v]), tf.cast(v, tf.int32), tf.transpose(v), tf.reshape(v, [-1]), tf.identity(v)]
            found += [tf.clip_by_norm(v, 1.0), tf.argmax(v, 1), tf.where(v > 2.0, v, -v), tf.tensordot(v, v, 1), tf.einsum("ij,jk->ik", v, v), tf.one_hot(n, 2), tf.norm(v), v[0], v[:, 1], v[n[0]], v + 1.0, 1.0 - v, v @ v, -v, abs(v)]
            found += [tf.boolean_mask(v, [True, False]), tf.pad(v, [[1, 0], [0, 0]]), tf.tile(v, [1, 2]), tf.split(v, 2)[0], tf.unstack(v)[1], tf.square(v), tf.add_n([v, v]), tf.clip_by_global_norm([v], 1.0)[0][0], tf.nn.l2_loss(v)]
            found += [tf.expand_dims(v, 0), tf.squeeze(v), tf.slice(v, [0, 0], [1, 1]), tf.cumsum(v), tf.scalar_mul(2.0, v), tf.assert_rank(v, 2), tf.divide(v, 2.0), tf.pow(v, 2.0), tf.range(n[0]), tf.fill(n + 1, 0.5)]
    check("names", [item.name for item in found])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for index, item in enumerate(found):
            value = session.run(item)
            check(str(index), value)
