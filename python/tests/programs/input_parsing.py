def example(tf, **features):
    made = {}
    for key, value in features.items():
        if isinstance(value[0], bytes):
            made[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
        elif isinstance(value[0], float):
            made[key] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        else:
            made[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=value))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def program(tf, check):
    serialized = tf.placeholder(tf.string, [None], name="serialized")
    one = tf.placeholder(tf.string, [], name="one")
    features = {
        "b": tf.FixedLenFeature([2], tf.float32),
        "a": tf.VarLenFeature(tf.int64),
        "c": tf.FixedLenFeature([], tf.string, default_value="none"),
        "d": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    parsed = tf.parse_example(serialized, features)
    single = tf.parse_single_example(one, {key: features[key] for key in "abc"})
    raw = tf.decode_raw(tf.constant([b"\x01\x02\x03\x04"]), tf.uint8)
    columns = tf.decode_csv(["1,x,2.5", "3,y,"], [[0], [""], [7.5]])
    selected = tf.decode_csv("1|2|3", [[0], [0]], field_delim="|", select_cols=[0, 2])
    batch = [
        example(tf, a=[1, 2], b=[1.0, 2.0], c=[b"x"], d=[5]),
        example(tf, b=[3.0, 4.0], d=[6, 7]),
    ]
    with tf.Session() as session:
        for key in sorted(features):
            check(f"batch {key}", session.run(parsed[key], {serialized: batch}))
        for key in "abc":
            check(f"single {key}", session.run(single[key], {one: batch[0]}))
        check("raw", session.run(raw))
        check("columns", session.run(columns))
        check("selected", session.run(selected))
        try:
            session.run(parsed["b"], {serialized: [example(tf, a=[1])]})
        except tf.errors.InvalidArgumentError as error:
            check("missing", "Feature: b (data type: float) is required but could not be found." in error.message)
    for name, bad in (
        ("empty", {}),
        ("invalid", {"a": 3}),
        ("unknown", {"a": tf.FixedLenFeature([None], tf.float32)}),
        ("sequence", {"a": tf.FixedLenSequenceFeature([], tf.float32)}),
    ):
        try:
            tf.parse_example(serialized, bad)
        except ValueError as error:
            check(name, str(error))
    check("repr", repr(features["b"]) + repr(features["a"]))
