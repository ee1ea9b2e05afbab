def program(tf, check):
    data = tf.data.Dataset
    experimental = tf.data.experimental
    datasets = {
        "repeat": data.range(4).apply(experimental.shuffle_and_repeat(1, 2, seed=1)),
        "window": data.range(6).apply(experimental.group_by_window(lambda x: x % 2, lambda key, d: d.batch(3), 3)),
        "scan": data.range(5).apply(experimental.scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s + x))),
        "while": data.range(5).apply(experimental.take_while(lambda x: x < 3)),
        "enumerate": data.range(2).apply(experimental.enumerate_dataset(3)),
        "unbatch": data.from_tensor_slices([[1.0, 2.0]]).apply(experimental.unbatch()),
    }
    single = experimental.get_single_element(data.range(7, 8))
    counts = [experimental.cardinality(data.range(3)), experimental.cardinality(data.range(3).repeat()), experimental.cardinality(data.range(3).filter(lambda x: x > 1))]
    options = tf.data.Options()
    options.experimental_deterministic = True
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.autotune = False
    datasets["options"] = data.range(2).with_options(options)
    with tf.Session() as session:
        for name in sorted(datasets):
            iterator = tf.compat.v1.data.make_initializable_iterator(datasets[name])
            following = iterator.get_next()
            session.run(iterator.initializer)
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, found)
        check("single", session.run(single))
        check("counts", session.run(counts))
    check("values", [experimental.AUTOTUNE, experimental.INFINITE_CARDINALITY, experimental.UNKNOWN_CARDINALITY])
