"""Name scopes, control dependencies, colocation, and the names that nodes get."""


def program(tf, check):
    with tf.name_scope("a") as outer:
        x = tf.constant(1.0, name="x")
        with tf.name_scope("b"):
            y = tf.add(x, 2.0)
        with tf.name_scope("b"):
            z = tf.add(x, 2.0, name="sum")
        with tf.name_scope(outer):
            w = tf.constant(2.0, name="x")
        with tf.name_scope(None):
            r = tf.constant(3.0, name="x")
    with tf.name_scope("A"):
        u = tf.constant(4.0, name="X")
    with tf.name_scope(None, "default", [x]):
        d = x * 2.0
    check("names", [t.name for t in (x, y, z, w, r, u, d)])
    v = tf.Variable(1.0, name="v")
    with tf.control_dependencies([y, v.initializer]):
        after = tf.identity(z, name="after")
        inner = tf.add(after, y)
        with tf.control_dependencies([d]):
            both = tf.constant(1.0, name="both")
        with tf.control_dependencies(None):
            free = tf.constant(1.0, name="free")
    check("controls", [sorted(op.name for op in t.op.control_inputs) for t in (after, inner, both, free)])
    with tf.colocate_with(v):
        beside = tf.constant(5.0, name="beside")
    with tf.device("/job:ps/task:1"):
        far = tf.constant(6.0, name="far")
    with tf.colocate_with(far):
        near = tf.constant(7.0, name="near")
    check("groups", [t.op.colocation_groups() for t in (beside, far, near)])
    check("devices", [t.device for t in (beside, far, near)])
    g = tf.get_default_graph()
    check("unique", [g.unique_name("v"), g.unique_name("new"), g.unique_name("new", mark_as_used=False), g.unique_name("new")])
    mistakes = []
    for name in ("white space", "_under", "a$"):
        for make in (lambda: tf.constant(1.0, name=name), lambda: tf.name_scope(name).__enter__()):
            try:
                make()
                mistakes.append("fine")
            except ValueError as error:
                mistakes.append(str(error))
    check("mistakes", mistakes)
