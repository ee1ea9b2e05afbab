"""Elements by name, collections, versions, importing a graph into another."""


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.name_scope("net"):
        w = tf.constant([[1.0], [2.0]], name="w")
        y = tf.matmul(x, w, name="y")
    g = tf.get_default_graph()
    check("found", [g.get_tensor_by_name("net/y:0").name, g.get_operation_by_name("net/w").type, g.as_graph_element("x").name, g.as_graph_element("x:0").name])
    mistakes = []
    for attempt in (
        lambda: g.get_tensor_by_name("net/y"),
        lambda: g.get_tensor_by_name("nothing:0"),
        lambda: g.get_tensor_by_name("net/y:3"),
        lambda: g.get_operation_by_name("net/y:0"),
        lambda: g.get_operation_by_name("nothing"),
        lambda: g.as_graph_element(3),
    ):
        try:
            attempt()
        except (KeyError, ValueError, TypeError) as error:
            mistakes.append((type(error).__name__, str(error)))
    check("mistakes", mistakes)
    tf.add_to_collection("mine", x)
    tf.add_to_collection("mine", y)
    tf.add_to_collections(["mine", "yours"], w)
    check("collections", [[t.name for t in tf.get_collection("mine")], [t.name for t in tf.get_collection("mine", "net")], sorted(g.get_all_collection_keys())])
    check("shown", [repr(x), str(y), repr(y.op), str(y.shape), y.shape.as_list(), x.get_shape().ndims])
    check("versions", [g.graph_def_versions.producer, g.version, g.seed, g.finalized])
    definition = g.as_graph_def()
    with tf.Graph().as_default() as other:
        fed = tf.constant([[3.0, 4.0]], name="fed")
        (result,) = tf.import_graph_def(definition, input_map={"x:0": fed}, return_elements=["net/y:0"], name="again")
        tf.import_graph_def(definition, name="")
        check("imported", [result.name, sorted(op.name for op in other.get_operations())])
        with tf.Session() as session:
            check("ran", session.run(result))
    y.set_shape([4, 1])
    check("set", str(y.shape))
    check("consumers", sorted(op.name for op in w.consumers()))
    check("inputs", [[t.name for t in y.op.inputs], y.op.get_attr("transpose_a"), y.op.get_attr("T").name, x.op.node_def.op])
