def program(tf, check):
    def attempt(name, function):
        try:
            function()
        except (TypeError, ValueError) as error:
            check(name, f"{type(error).__name__}: {error}")

    named = tf.FIFOQueue(10, [tf.float32], names=["a"])
    plain = tf.FIFOQueue(10, [tf.float32], [[2]])
    attempt("no dictionary", lambda: named.enqueue([1.0]))
    attempt("other keys", lambda: named.enqueue({"b": 1.0}))
    attempt("no names", lambda: plain.enqueue({"b": 1.0}))
    attempt("names", lambda: tf.FIFOQueue(10, [tf.float32], names=["a", "b"]))
    attempt("partial", lambda: tf.PaddingFIFOQueue(10, [tf.float32], None))
    attempt("shape", lambda: plain.enqueue([[1.0, 2.0, 3.0]]))
    attempt("rows", lambda: plain.enqueue_many([[1.0, 2.0, 3.0]]))
    attempt("dtypes", lambda: tf.QueueBase.from_list(tf.constant(0), [plain, tf.FIFOQueue(10, [tf.int32])]))
    attempt("undefined", lambda: tf.FIFOQueue(10, [tf.float32], [[None]]))
    check("chosen", tf.QueueBase.from_list(0, [plain, tf.FIFOQueue(3, [tf.float32], [[2]])]).name)
