"""Texts: joining, splitting, hashing, regular expressions, numbers."""


def program(tf, check):
    t = tf.constant(["ab", "Cd ", " e"])
    found = [("length", tf.strings.length(t)), ("lower", tf.strings.lower(t)), ("upper", tf.strings.upper(t)), ("strip", tf.string_strip(t)), ("substr", tf.substr(["hello"], 1, 3)), ("join", tf.string_join(["a", t, "z"], "-"))]
    found += [("reduce", tf.reduce_join([["a", "b"], ["c", "d"]], 1)), ("reduce all", tf.reduce_join([["a", "b"], ["c", "d"]], separator=",")), ("reduce old", tf.reduce_join([["a", "b"]], reduction_indices=0, keep_dims=True)), ("number", tf.string_to_number(["1.5", "-2"]))]
    found += [("int", tf.string_to_number(["3"], tf.int32)), ("hash", tf.string_to_hash_bucket_fast(t, 100)), ("strong", tf.string_to_hash_bucket_strong(t, 100, [1, 2])), ("bucket", tf.string_to_hash_bucket(t, 100)), ("as_string", tf.as_string([1.5, 2.25], precision=2))]
    found += [("match", tf.strings.regex_full_match(t, "a.*")), ("replace", tf.regex_replace(t, "[a-c]", "x")), ("replace tensor", tf.strings.regex_replace(t, tf.constant("b"), "y", replace_global=False)), ("base64", tf.encode_base64(t)), ("decoded", tf.decode_base64(tf.encode_base64(t)))]
    found += [("format", tf.strings.format("x {} y {}", [tf.constant([1, 2]), tf.constant(3.5)])), ("plus", t + "!")]
    split = tf.string_split(["a b", "c"])
    parts = tf.strings.split(["a,b", "c"], sep=",")
    found += [("split", [split.indices, split.values, split.dense_shape]), ("split 2", [parts.indices, parts.values, parts.dense_shape])]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
