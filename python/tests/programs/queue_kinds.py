def program(tf, check):
    fifo = tf.FIFOQueue(10, [tf.float32, tf.int32], [[], [2]], shared_name="shared")
    shuffled = tf.RandomShuffleQueue(10, 0, tf.float32, shapes=[[]], names=["a"], seed=3)
    padding = tf.PaddingFIFOQueue(10, [tf.float32], [[None]])
    priority = tf.PriorityQueue(10, [tf.string], [[]])
    steps = [
        fifo.enqueue((1.0, [1, 2])),
        fifo.enqueue_many(([2.0, 3.0], [[3, 4], [5, 6]])),
        shuffled.enqueue_many({"a": [1.0, 2.0, 3.0]}),
        padding.enqueue([[1.0]]),
        padding.enqueue([[2.0, 3.0]]),
        priority.enqueue((5, "last")),
        priority.enqueue((1, "first")),
    ]
    taken = [fifo.dequeue(), fifo.dequeue_many(2), padding.dequeue_many(2), priority.dequeue(), priority.dequeue()]
    check("names", [fifo.name, [dtype.name for dtype in fifo.dtypes], [str(shape) for shape in fifo.shapes], shuffled.names])
    with tf.Session() as session:
        for step in steps:
            session.run(step)
        check("sizes", session.run([fifo.size(), shuffled.size(), padding.size(), priority.size()]))
        for index, fetch in enumerate(taken):
            check(f"taken {index}", session.run(fetch))
        check("shuffled", sorted(float(session.run(shuffled.dequeue())["a"]) for _ in range(3)))
        check("closed", session.run(fifo.is_closed()))
        session.run(fifo.close())
        check("closed then", session.run(fifo.is_closed()))
        try:
            session.run(fifo.dequeue())
        except tf.errors.OutOfRangeError as error:
            check("empty", "is closed and has insufficient elements (requested 1, current size 0)" in error.message)
        try:
            session.run(fifo.enqueue((1.0, [1, 2])))
        except tf.errors.CancelledError as error:
            check("closed queue", "is closed" in error.message)
