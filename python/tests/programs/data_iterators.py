def program(tf, check):
    data = tf.data.Dataset
    one_shot = data.from_tensor_slices([1, 2, 3]).map(lambda x: x * 2).batch(2).make_one_shot_iterator()
    first = one_shot.get_next()
    shared = tf.data.Iterator.from_structure((tf.int64, tf.float32), ([], [None]))
    following = shared.get_next()
    begin = [
        shared.make_initializer(data.zip((data.range(2), data.from_tensors([1.0, 2.0]).repeat()))),
        shared.make_initializer(data.zip((data.range(5, 6), data.from_tensors([3.0]))), name="other"),
    ]
    handle = tf.placeholder(tf.string, [], name="handle")
    fed = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
    fed_next = fed.get_next()
    one = data.range(10, 13).make_initializable_iterator()
    two = data.range(20, 23).make_initializable_iterator(shared_name="two")
    optional = tf.data.experimental.get_next_as_optional(one)
    has, value = optional.has_value(), optional.get_value()
    check("types", [str(shared.output_types), str(shared.output_shapes), str(shared.element_spec)])
    try:
        fed.initializer
    except ValueError as error:
        check("no initializer", str(error))
    try:
        shared.make_initializer(data.range(3))
    except (TypeError, ValueError) as error:
        check("other types", type(error).__name__)
    with tf.Session() as session:
        check("one shot", [session.run(first), session.run(first)])
        try:
            session.run(first)
        except tf.errors.OutOfRangeError as error:
            check("end", error.message.split("\n")[0].split("[[")[0].strip())
        try:
            session.run(following)
        except tf.errors.FailedPreconditionError as error:
            check("not begun", "GetNext() failed because the iterator has not been initialized" in error.message)
        for index, op in enumerate(begin):
            session.run(op)
            check(f"structure {index}", session.run(following))
        session.run([one.initializer, two.initializer])
        handles = session.run([one.string_handle(), two.string_handle()])
        check("fed", [session.run(fed_next, {handle: handles[index]}) for index in (0, 1, 1, 0)])
        check("optional", session.run([has, value]))
        check("missing", session.run(has))
