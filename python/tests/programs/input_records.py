import os


def program(tf, check):
    os.chdir(os.environ["DIFFERENTIAL_DIRECTORY"])
    for kind in (None, tf.python_io.TFRecordCompressionType.GZIP, tf.python_io.TFRecordCompressionType.ZLIB):
        options = None if kind is None else tf.python_io.TFRecordOptions(kind)
        with tf.python_io.TFRecordWriter("file", options=options) as writer:
            for index in range(5):
                writer.write(b"record %d" % index)
            writer.flush()
        check(f"records {kind}", list(tf.python_io.tf_record_iterator("file", options=options)))
        check(f"name {kind}", tf.python_io.TFRecordOptions.get_compression_type_string(options))
    with open("file", "wb") as file:
        file.write(b"this is no record file at all")
    try:
        list(tf.python_io.tf_record_iterator("file"))
    except tf.errors.DataLossError:
        check("broken", "DataLossError")
    try:
        list(tf.python_io.tf_record_iterator("missing"))
    except tf.errors.NotFoundError:
        check("missing", "NotFoundError")
    try:
        tf.python_io.TFRecordOptions("NO")
    except ValueError as error:
        check("kind", str(error))
