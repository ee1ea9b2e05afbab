import os


def program(tf, check):
    os.chdir(os.environ["DIFFERENTIAL_DIRECTORY"])
    with open("lines.txt", "w") as file:
        file.write("one\ntwo\n")
    with open("more.txt", "w") as file:
        file.write("three\n")
    with open("bytes.bin", "wb") as file:
        file.write(b"HHaabbccF")
    with tf.python_io.TFRecordWriter("records") as writer:
        for record in (b"first", b"second"):
            writer.write(record)
    data = tf.data.Dataset
    sources = {
        "tensors": data.from_tensors({"a": 1.0, "b": (2, "x")}),
        "slices": data.from_tensor_slices(([1, 2, 3], [3.0, 4.0, 5.0])),
        "range": data.range(2, 10, 3),
        "zip": data.zip((data.range(3), data.from_tensor_slices(["a", "b", "c"]))),
        "lines": tf.data.TextLineDataset(["lines.txt", "more.txt"]),
        "records": tf.data.TFRecordDataset("records"),
        "fixed": tf.data.FixedLengthRecordDataset("bytes.bin", 2, header_bytes=2, footer_bytes=1),
        "files": data.list_files("lines.txt", shuffle=False),
        "counter": tf.data.experimental.Counter(5, 2).take(3),
        "list": data.from_tensors([1, 2]),
    }
    for name in sorted(sources):
        dataset = sources[name]
        check(f"{name} shown", repr(dataset).replace("DatasetV1Adapter", "Dataset"))
        element = tf.compat.v1.data.make_initializable_iterator(dataset)
        following = element.get_next()
        found = []
        with tf.Session() as session:
            session.run(element.initializer)
            try:
                while len(found) < 20:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                pass
        check(name, found)
