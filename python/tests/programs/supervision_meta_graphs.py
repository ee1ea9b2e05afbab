"""Meta graphs: exported, imported, with collections of all kinds."""

import os
import tempfile


def program(tf, check):
    directory = tempfile.mkdtemp()
    v = tf.Variable([1.0, 2.0], name="v")
    w = tf.get_variable("w", initializer=3.0, use_resource=True)
    local = tf.Variable(1, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False, name="local")
    y = tf.add(v * w, 1.0, name="y")
    queue = tf.FIFOQueue(3, tf.float32, name="queue")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)] * 2))
    tf.add_to_collection("outputs", y)
    tf.add_to_collection("words", "hello")
    tf.add_to_collection("numbers", 7)
    tf.add_to_collection("floats", 1.5)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        path = saver.save(sess, os.path.join(directory, "model"))
    meta = tf.train.export_meta_graph(os.path.join(directory, "other.meta"), saver_def=saver.as_saver_def())
    check("collections", {key: value.WhichOneof("kind") for key, value in meta.collection_def.items()})
    check("nodes", list(meta.collection_def["outputs"].node_list.value))
    check("version", [meta.meta_info_def.tensorflow_version, meta.graph_def.versions.producer])
    check("numbers", [list(meta.collection_def["numbers"].int64_list.value), list(meta.collection_def["words"].bytes_list.value)])
    for file in ("model.meta", "other.meta"):
        with tf.Graph().as_default() as graph:
            again = tf.train.import_meta_graph(os.path.join(directory, file))
            check(file + " variables", [[x.name for x in tf.global_variables()], [x.name for x in tf.trainable_variables()], [x.name for x in tf.local_variables()]])
            check(file + " collections", sorted(graph.get_all_collection_keys()))
            check(file + " outputs", [x.name for x in tf.get_collection("outputs")])
            check(file + " words", [tf.get_collection("words"), tf.get_collection("numbers"), tf.get_collection("floats")])
            runner = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0]
            check(file + " runner", [runner.name, [op.name for op in runner.enqueue_ops], runner.close_op.name, runner.cancel_op.name])
            with tf.Session() as sess:
                again.restore(sess, path)
                check(file + " value", sess.run("y:0"))
    with tf.Graph().as_default() as graph:
        again = tf.train.import_meta_graph(path + ".meta", import_scope="inner", clear_devices=True)
        check("scope", [x.name for x in tf.global_variables()])
        check("scoped def", str(again.as_saver_def()))
        with tf.Session() as sess:
            again.restore(sess, path)
            check("scoped value", sess.run("inner/y:0"))
    text = os.path.join(directory, "text.meta")
    tf.train.export_meta_graph(text, as_text=True, collection_list=["variables", "outputs"])
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(text)
        check("text", sorted(graph.get_all_collection_keys()))
