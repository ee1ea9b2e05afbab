"""Random numbers: seeds of graph and op, the same values."""


def program(tf, check):
    tf.set_random_seed(11)
    n = tf.placeholder_with_default(3, [])
    found = [("normal", tf.random_normal([2, 3], mean=1.0, stddev=2.0, seed=1)), ("uniform", tf.random_uniform([4], -1.0, 1.0, seed=2)), ("int", tf.random_uniform([4], 0, 10, tf.int32, seed=3)), ("truncated", tf.truncated_normal([5], seed=4))]
    found += [("no seed", tf.random_normal([2])), ("no seed 2", tf.random_uniform([2])), ("dynamic", tf.random_normal([n], seed=5)), ("shuffle", tf.random_shuffle([1, 2, 3, 4, 5], seed=6)), ("double", tf.random_uniform([2], dtype=tf.float64, seed=7))]
    found += [("stateless", tf.random.stateless_uniform([2], [1, 2])), ("stateless normal", tf.random.stateless_normal([2], seed=[3, 4])), ("stateless truncated", tf.random.stateless_truncated_normal([2], seed=[5, 6]))]
    found += [("crop", tf.random_crop(tf.reshape(tf.range(12), [3, 4]), [2, 2], seed=8)), ("multinomial", tf.multinomial([[0.0, 1.0, 2.0]], 5, seed=9)), ("categorical", tf.random.categorical([[0.0, 1.0]], 3, seed=10)), ("scalar", tf.random_normal([], seed=12))]
    found += [("gamma", tf.random_gamma([2], [0.5, 1.5], seed=13))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
