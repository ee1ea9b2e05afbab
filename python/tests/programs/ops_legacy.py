"""Names of TensorFlow 1.x that stand for older ones, and old argument names."""


def program(tf, check):
    a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    found = [("sum", tf.reduce_sum(a, reduction_indices=[1])), ("mean", tf.reduce_mean(a, 0, keep_dims=True)), ("max", tf.reduce_max(a, reduction_indices=1)), ("argmax", tf.argmax(a, dimension=1)), ("expand", tf.expand_dims(a, dim=-1))]
    found += [("squeeze", tf.squeeze([[1.0]], squeeze_dims=[0])), ("reverse", tf.reverse_v2(a, [0])), ("div", tf.div(a, 2.0)), ("to_float", tf.to_float([1, 2])), ("count", tf.count_nonzero(a, reduction_indices=0)), ("norm", tf.norm(a, axis=1, keep_dims=True))]
    found += [("seq", tf.reverse_sequence(a, [1, 2], seq_dim=1, batch_dim=0)), ("floordiv", tf.floor_div([7], [2])), ("realdiv", tf.realdiv(a, 2.0)), ("substr", tf.substr("abc", 0, 2)), ("reduce_join", tf.reduce_join(["a", "b"], 0))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
