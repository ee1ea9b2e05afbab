def example(tf, values):
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature={"a": feature})).SerializeToString()


def program(tf, check):
    data = tf.data.Dataset
    sparse = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.5, 2.5, 3.5], [2, 3])
    examples = data.from_tensor_slices([example(tf, [1, 2]), example(tf, []), example(tf, [3])])
    parsed = examples.map(lambda e: tf.parse_single_example(e, {"a": tf.VarLenFeature(tf.int64)}))
    datasets = {
        "whole": data.from_tensors(sparse),
        "rows": data.from_tensor_slices((sparse, [10, 20])),
        "parsed": parsed,
        "batched": parsed.batch(2),
        "mapped": data.from_tensors(sparse).map(lambda s: tf.SparseTensor(s.indices, s.values * 2.0, s.dense_shape)),
        "dense": parsed.map(lambda e: tf.sparse_tensor_to_dense(e["a"])),
    }
    for name in sorted(datasets):
        check(f"{name} classes", str(tf.compat.v1.data.get_output_shapes(datasets[name])))
        iterator = tf.compat.v1.data.make_initializable_iterator(datasets[name])
        following = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer)
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, found)
