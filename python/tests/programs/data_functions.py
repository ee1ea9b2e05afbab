import numpy as np


def program(tf, check):
    data = tf.data.Dataset
    c = tf.constant(5, tf.int64)
    p = tf.placeholder(tf.int64, [], name="p")
    v = tf.get_variable("v", initializer=np.int64(3))
    r = tf.get_variable("r", initializer=np.int64(4), use_resource=True)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([10, 20], tf.int64)), -1)
    datasets = {
        "captured": data.range(3).map(lambda x: x * c + p + v),
        "resource": data.range(3).map(lambda x: x + r),
        "table": data.range(3).map(lambda x: table.lookup(x)),
        "filter": data.range(10).filter(lambda x: tf.equal(x % c, 0)),
        "flat": data.range(4).flat_map(lambda x: data.range(x).map(lambda y: x * 10 + y + p)),
        "structure": data.from_tensor_slices({"a": [1.0, 2.0], "b": [3, 4]}).map(lambda e: (e["a"] * 2.0, {"c": e["b"], "d": tf.as_string(e["b"])})),
        "pairs": data.zip((data.range(3), data.range(3))).map(lambda a, b: a + b),
        "list": data.range(2).map(lambda x: [x, x + 1]),
        "cond": data.range(4).map(lambda x: tf.cond(x > 1, lambda: x * 10, lambda: x)),
        "loop": data.range(4).map(lambda x: tf.while_loop(lambda i, t: i < x, lambda i, t: (i + 1, t * 2), [tf.constant(0, tf.int64), tf.constant(1, tf.int64)])[1]),
        "python": data.range(3).map(lambda x: tf.py_func(lambda n: n * np.int64(7), [x], tf.int64)),
    }
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for name in sorted(datasets):
            iterator = tf.compat.v1.data.make_initializable_iterator(datasets[name])
            following = iterator.get_next()
            session.run(iterator.initializer, {p: 1})
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, found)
    total = data.range(5).reduce(np.int64(0), lambda a, b: a + b)
    with tf.Session() as session:
        check("reduce", session.run(total))
    for name, wrong in (
        ("no function", lambda: data.range(3).map(3)),
        ("no bool", lambda: data.range(3).filter(lambda x: x)),
        ("none", lambda: data.range(3).map(lambda x: None)),
        ("zip", lambda: data.zip(3)),
        ("range", lambda: data.range()),
    ):
        try:
            wrong()
        except (TypeError, ValueError) as error:
            check(name, f"{type(error).__name__}: {error}")

