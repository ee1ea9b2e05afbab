"""Variables as constants, training nodes removed."""


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[1.0], [2.0]], name="w")
    b = tf.get_variable("b", initializer=[0.5], use_resource=True)
    y = tf.identity(tf.matmul(x, w) + b, name="y")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(sess, tf.get_default_graph().as_graph_def(), ["y"])
        check("live", sess.run(y, {x: [[1.0, 1.0]]}))
    check("frozen", sorted((node.name, node.op) for node in frozen.node))
    cleaned = tf.graph_util.remove_training_nodes(frozen, protected_nodes=["y"])
    check("cleaned", sorted((node.name, node.op, list(node.input)) for node in cleaned.node))
    with tf.Graph().as_default():
        inputs, outputs = tf.import_graph_def(cleaned, return_elements=["x:0", "y:0"])
        with tf.Session() as sess:
            check("same", sess.run(outputs, {inputs: [[1.0, 1.0]]}))
