import numpy as np


def program(tf, check):
    ended = []

    def numbers():
        try:
            for index in range(3):
                yield index, [float(index)] * 2
        finally:
            ended.append(True)

    def counted(limit, text):
        for index in range(limit):
            yield {"n": np.int64(index), "s": text}

    def broken():
        yield 1
        raise RuntimeError("the generator broke")

    data = tf.data.Dataset
    pairs = data.from_generator(numbers, (tf.int32, tf.float32), ([], [2]))
    named = data.from_generator(counted, {"n": tf.int64, "s": tf.string}, {"n": [], "s": []}, args=(2, "word"))
    unknown = data.from_generator(lambda: iter([[1], [1, 2]]), tf.int32).repeat(2)
    failing = data.from_generator(broken, tf.int32, [])
    check("shapes", str(tf.compat.v1.data.get_output_shapes(unknown)))
    with tf.Session() as session:
        for name, dataset in (("pairs", pairs.batch(2)), ("named", named), ("unknown", unknown), ("failing", failing)):
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            following = iterator.get_next()
            session.run(iterator.initializer)
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, found)
            except tf.errors.OpError as error:
                check(name, [found, type(error).__name__, "the generator broke" in error.message])
    check("ended", ended)
