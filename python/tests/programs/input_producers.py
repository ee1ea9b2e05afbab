def program(tf, check):
    strings = tf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
    numbers = tf.train.range_input_producer(4, num_epochs=1, shuffle=False, name="numbers")
    slices = tf.train.slice_input_producer([tf.constant([1, 2, 3]), tf.constant([[1.0], [2.0], [3.0]])], num_epochs=1, shuffle=False)
    rows = tf.train.input_producer(tf.constant([[1, 2], [3, 4]]), num_epochs=1, shuffle=False, capacity=8)
    text = strings.dequeue()
    number = numbers.dequeue()
    row = rows.dequeue()
    check("runners", len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)))
    check("summaries", [summary.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)])
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        check("texts", [session.run(text) for _ in range(6)])
        check("numbers", [session.run(number) for _ in range(4)])
        check("slices", [session.run(slices) for _ in range(3)])
        check("rows", [session.run(row) for _ in range(2)])
        try:
            session.run(text)
        except tf.errors.OutOfRangeError:
            check("end", "OutOfRangeError")
        coordinator.request_stop()
        coordinator.join(threads)
