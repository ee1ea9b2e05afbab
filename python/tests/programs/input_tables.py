import os


def program(tf, check):
    os.chdir(os.environ["DIFFERENTIAL_DIRECTORY"])
    with open("words.txt", "w") as file:
        file.write("emerson\nlake\npalmer\n")
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    words = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer("words.txt", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 3
    )
    ids = tf.contrib.lookup.index_table_from_tensor(["x", "y"], num_oov_buckets=1)
    names = tf.contrib.lookup.index_to_string_table_from_tensor(["x", "y"], default_value="?")
    from_file = tf.contrib.lookup.index_table_from_file("words.txt", num_oov_buckets=2)
    back = tf.contrib.lookup.index_to_string_table_from_file("words.txt")
    fetches = {
        "table": table.lookup(tf.constant(["b", "z"])),
        "size": table.size(),
        "words": words.lookup(tf.constant(["lake", "unknown"])),
        "words size": words.size(),
        "ids": ids.lookup(tf.constant(["y", "q"])),
        "names": names.lookup(tf.constant([1, 5], tf.int64)),
        "from file": from_file.lookup(tf.constant(["palmer", "who"])),
        "back": back.lookup(tf.constant([0, 9], tf.int64)),
        "sparse": table.lookup(tf.SparseTensor([[0, 0]], ["a"], [1, 1])),
    }
    start = tf.tables_initializer()
    with tf.Session() as session:
        try:
            session.run(fetches["table"])
        except tf.errors.FailedPreconditionError as error:
            check("not initialized", "Table not initialized" in error.message)
        session.run(start)
        for name in sorted(fetches):
            check(name, session.run(fetches[name]))
        keys, values = session.run(table.export())
        check("export", sorted(zip(keys.tolist(), values.tolist())))
    check("properties", [table.name, table.key_dtype.name, table.value_dtype.name, words.name])
