def program(tf, check):
    data = tf.data.Dataset
    experimental = tf.data.experimental
    chosen = experimental.choose_from_datasets([data.range(3), data.range(10, 13)], data.from_tensor_slices([0, 1, 1, 0, 1, 1, 0]).map(lambda x: tf.cast(x, tf.int64)))
    sampled = experimental.sample_from_datasets([data.range(5), data.range(10, 15)], [0.5, 0.5], seed=3)
    good = data.from_tensor_slices([1.0, 2.0, 0.0, 4.0]).map(lambda x: tf.check_numerics(1.0 / x, "error")).apply(experimental.ignore_errors())
    random = experimental.RandomDataset(seed=7).take(3)
    with tf.Session() as session:
        for name, dataset in (("chosen", chosen), ("sampled", sampled), ("good", good), ("random", random)):
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            following = iterator.get_next()
            session.run(iterator.initializer)
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, sorted(found) if name == "sampled" else found)


#: TensorFlow draws in an order of its own.
DIFFERENCES = {"MapDataset_1": "TensorFlow marks this map as one that uses no threads of nodes"}
