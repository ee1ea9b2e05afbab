import os


def program(tf, check):
    directory = os.environ["DIFFERENTIAL_DIRECTORY"]
    # The same names on both sides, so that graphs compare.
    text = "lines.txt"
    os.chdir(directory)
    with open(text, "w") as file:
        file.write("head\none\ntwo\n")
    with open("bytes.bin", "wb") as file:
        file.write(b"HHaabbccF")
    with tf.python_io.TFRecordWriter("records") as writer:
        for record in (b"first", b"second"):
            writer.write(record)
    queue = tf.FIFOQueue(4, [tf.string], [[]])
    fill = queue.enqueue_many([[text, text]])
    names = tf.FIFOQueue(4, [tf.string], [[]], name="names")
    lines = tf.TextLineReader(skip_header_lines=1)
    read = lines.read(queue)
    whole = tf.WholeFileReader().read(names)
    records = tf.TFRecordReader()
    record = records.read_up_to(names, 5)
    fixed = tf.FixedLengthRecordReader(2, header_bytes=2, footer_bytes=1).read(names)
    identity = tf.IdentityReader().read(names.queue_ref)
    put = {name: names.enqueue([name]) for name in (text, "bytes.bin", "records")}
    with tf.Session() as session:
        session.run(fill)
        for index in range(4):
            check(f"line {index}", session.run(read))
        check("counts", session.run([lines.num_records_produced(), lines.num_work_units_completed()]))
        session.run(put[text])
        check("whole", session.run(whole))
        session.run(put["records"])
        check("records", session.run(record))
        session.run(put["bytes.bin"])
        check("fixed", [session.run(fixed), session.run(fixed)])
        session.run(put[text])
        check("identity", session.run(identity))
        session.run(lines.reset())
        check("after reset", session.run(lines.num_records_produced()))
        check("file", session.run(tf.read_file(text)))
        session.run(tf.write_file("written.txt", "content"))
        check("written", open("written.txt").read())
        check("matching", sorted(session.run(tf.matching_files("*.txt"))))
