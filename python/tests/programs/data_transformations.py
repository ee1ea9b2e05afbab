def elements(tf, dataset, limit=20):
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        try:
            while len(found) < limit:
                found.append(session.run(following))
        except tf.errors.OutOfRangeError:
            pass
    return found


def program(tf, check):
    data = tf.data.Dataset
    numbers = data.range(7)
    shapes = lambda dataset: str(tf.compat.v1.data.get_output_shapes(dataset))
    results = {
        "batch": numbers.batch(3),
        "drop": numbers.batch(3, drop_remainder=True),
        "repeat": data.range(2).repeat(3),
        "take": numbers.skip(2).take(3),
        "shard": numbers.shard(3, 1),
        "concatenate": data.range(2).concatenate(data.range(5, 7)),
        "enumerate": data.from_tensor_slices(["a", "b"]).enumerate(5),
        "cache": numbers.cache().repeat(2),
        "prefetch": numbers.prefetch(2),
        "padded": data.range(4).map(lambda x: tf.fill([x], x)).padded_batch(2, [None]),
        "padded pairs": data.range(3).map(lambda x: (tf.fill([x], x), "a")).padded_batch(2, ([5], []), padding_values=(tf.constant(-1, tf.int64), "z")),
        "unbatch": data.from_tensors(([1, 2, 3], ["a", "b", "c"])).unbatch(),
        "window": data.range(5).window(2, shift=1, drop_remainder=True).flat_map(lambda d: d.batch(2)),
        "interleave": data.range(1, 4).interleave(lambda x: data.from_tensors(x).repeat(3), cycle_length=2, block_length=2),
        "parallel": data.range(4).map(lambda x: x * x, num_parallel_calls=2),
        "parallel interleave": data.range(1, 3).interleave(lambda x: data.range(x), cycle_length=2, num_parallel_calls=2),
    }
    for name in sorted(results):
        check(f"{name} shapes", shapes(results[name]))
        check(name, elements(tf, results[name]))
    shuffled = elements(tf, data.range(20).shuffle(5, seed=3), 30)
    check("shuffled", sorted(shuffled))
    check("shuffled moves", shuffled != sorted(shuffled))
