"""`import_graph_def` with maps, returned elements and its errors."""


def message(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "no error"


def program(tf, check):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        with tf.control_dependencies([tf.no_op(name="before")]):
            y = tf.multiply(x, 2.0, name="y")
        with tf.name_scope("inner"):
            tf.split(y, 2, name="parts")
        definition = graph.as_graph_def()
    feed = tf.constant([1.0, 3.0])
    y, parts = tf.import_graph_def(definition, input_map={"x": feed}, return_elements=["y:0", "inner/parts"])
    again = tf.import_graph_def(definition, return_elements=["y"])
    named = tf.import_graph_def(definition, name="mine", return_elements=["y:0", "x:0"])
    flat = tf.import_graph_def(definition, name="", return_elements=["y:0"])
    with tf.name_scope("outer"):
        deep = tf.import_graph_def(definition, input_map={"x:0": feed}, return_elements=["y:0"])
    nothing = tf.import_graph_def(definition, name="last")
    check("names", [y.name, parts.name, again[0].name, named[0].name, named[1].name, flat[0].name, deep[0].name, str(nothing)])
    with tf.Session() as sess:
        check("values", sess.run([y, parts.outputs, deep[0]]))
        check("fed", sess.run(named[0], {named[1]: [5.0, 6.0]}))
    check("errors", [
        message(lambda: tf.import_graph_def("no")),
        message(lambda: tf.import_graph_def(definition, input_map={"none": feed})),
        message(lambda: tf.import_graph_def(definition, return_elements=["none:0"])),
        message(lambda: tf.import_graph_def(definition, input_map=[feed])),
        message(lambda: tf.import_graph_def(definition, return_elements=[7])),
    ])
    smaller = tf.graph_util.extract_sub_graph(definition, ["y"])
    check("smaller", [node.name for node in smaller.node])
