"""What a session gives: structures, names, operations, sparse values, feeds of any tensor, callables, partial runs."""

import collections

Pair = collections.namedtuple("Pair", ["first", "second"])


def program(tf, check):
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.multiply(x, 2.0, name="y")
    v = tf.Variable(3.0, name="v")
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [5.0, 6.0], [2, 2])
    text = tf.constant(["a", "bc"])
    step = tf.assign_add(v, 1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feeds = {x: [1.0, 2.0]}
        check("single", session.run(y, feeds))
        check("list", session.run([y, v, v.initializer], feeds))
        check("nested", session.run({"a": [y, (v, y)], "b": Pair(y, v)}, feeds))
        check("names", session.run(["y:0", "v:0"], {"x:0": [4.0]}))
        check("operation", [session.run(step.op), session.run("v/Assign")])
        check("sparse", list(session.run(sparse)))
        check("strings", session.run(text))
        check("fed inside", session.run([y, y + 1.0], {y: [7.0, 8.0]}))
        check("fed and fetched", session.run(x, {x: [9.0]}))
        check("eval", [y.eval(feeds), v.eval(), step.eval()])
        check("callable", session.make_callable([y, v], [x])([5.0]))
        check("empty", [session.run([]), session.run({}), session.run(())])
        part = session.partial_run_setup([y], [x])
        check("partial", session.partial_run(part, y, {x: [1.5]}))
        check("sparse fed", session.run(tf.sparse_tensor_to_dense(sparse), {sparse: tf.SparseTensorValue([[0, 0], [1, 1]], [1.0, 2.0], [2, 2])}))
