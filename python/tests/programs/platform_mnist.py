"""The MNIST reader: batches for a seed, over the end of an epoch."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    import gzip
    import os
    import struct

    import numpy as np

    getattr(tf, "install_as_tensorflow", lambda quiet: None)(quiet=True)
    from tensorflow.examples.tutorials.mnist import input_data

    folder = os.environ["DIFFERENTIAL_DIRECTORY"]
    draw = np.random.RandomState(0)
    for prefix, count in (("train", 60), ("t10k", 20)):
        with gzip.open(os.path.join(folder, prefix + "-images-idx3-ubyte.gz"), "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, 28, 28) + draw.randint(0, 256, count * 784).astype(np.uint8).tobytes())
        with gzip.open(os.path.join(folder, prefix + "-labels-idx1-ubyte.gz"), "wb") as file:
            file.write(struct.pack(">II", 2049, count) + draw.randint(0, 10, count).astype(np.uint8).tobytes())
    for number, options in enumerate([{"seed": 7}, {"one_hot": True, "seed": 3}, {"reshape": False, "seed": 1, "dtype": tf.uint8}, {"validation_size": 0, "seed": 9}]):
        sets = input_data.read_data_sets(folder, **dict({"validation_size": 10}, **options))
        check("sizes %d" % number, [sets.train.num_examples, sets.validation.num_examples, sets.test.num_examples])
        for batch in range(7):
            images, labels = sets.train.next_batch(16, shuffle=batch != 5)
            check("images %d %d" % (number, batch), images[:, :3])
            check("labels %d %d" % (number, batch), labels)
        check("epochs %d" % number, sets.train.epochs_completed)
    fake = input_data.read_data_sets(folder, fake_data=True, one_hot=True)
    check("fake", fake.train.next_batch(2, fake_data=True))
    check("too many", said(lambda: input_data.read_data_sets(folder, validation_size=1000)))
    check("type", said(lambda: input_data.read_data_sets(folder, validation_size=1, dtype=tf.int32)).split(",")[0])
    tf.set_random_seed(5)
    check("seed of the graph", input_data.read_data_sets(folder, validation_size=0).train.next_batch(8)[1])
