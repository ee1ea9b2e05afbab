"""Queue runners: by hand, in monitored sessions, and their ends."""

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    count = tf.Variable(0, trainable=False, name="count")
    limited = tf.count_up_to(count, 5) if hasattr(tf, "count_up_to") else count.count_up_to(5)
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="numbers")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(limited)])
    tf.train.add_queue_runner(runner)
    element = queue.dequeue()
    check("names", [runner.name, runner.close_op.name, runner.cancel_op.name, [kind.__name__ for kind in runner.queue_closed_exception_types]])
    check("def", str(runner.to_proto()))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        check("threads", len(threads))
        got = []
        try:
            while not coord.should_stop():
                got.append(int(sess.run(element)))
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
        check("got", got)
    with tf.train.MonitoredSession() as session:
        got = []
        while not session.should_stop():
            got.append(int(session.run(element)))
    check("monitored", got)
    with tf.Graph().as_default():
        bad = tf.placeholder(tf.int32, [])
        queue = tf.FIFOQueue(10, tf.int32)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(bad)] * 2))
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            try:
                coord.join(threads)
            except tf.errors.InvalidArgumentError as error:
                check("error", type(error).__name__)
    try:
        tf.train.QueueRunner()
    except ValueError as error:
        check("no queue", str(error))
