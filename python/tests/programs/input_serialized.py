def program(tf, check):
    values = {
        "float": tf.constant([[1.5, 2.5]]),
        "string": tf.constant(["a", "bc"]),
        "int": tf.constant(7, tf.int64),
    }
    sparse = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], ["a", "b", "c"], [2, 3])
    many = tf.serialize_many_sparse(sparse)
    back = tf.deserialize_many_sparse(many, tf.string, rank=2)
    one = tf.serialize_sparse(sparse)
    wrong = tf.parse_tensor(tf.serialize_tensor(values["float"]), tf.int32)
    with tf.Session() as session:
        for name in sorted(values):
            serialized = tf.serialize_tensor(values[name])
            check(f"{name} parsed", session.run(tf.parse_tensor(serialized, values[name].dtype)))
            proto = tf.make_ndarray(type(tf.make_tensor_proto(1)).FromString(session.run(serialized)))
            check(f"{name} proto", proto)
        check("many", session.run(back))
        check("shapes", [session.run(many).shape, session.run(one).shape])
        for text, bad in (("type", wrong), ("text", tf.parse_tensor("no tensor", tf.int32))):
            try:
                session.run(bad)
            except tf.errors.InvalidArgumentError as error:
                check(text, "InvalidArgumentError")
