"""`replica_device_setter`: turns, strategies, scopes around and inside, and calls with an operation."""


def program(tf, check):
    cluster = tf.train.ClusterSpec({"ps": ["a:1", "b:1", "c:1"], "worker": ["d:1", "e:1"]})
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:1")):
        a = tf.Variable([1.0, 2.0], name="a")
        b = tf.get_variable("b", [3], initializer=tf.zeros_initializer(), use_resource=True)
        with tf.device("/cpu:0"):
            c = tf.Variable(1.0, name="c")
            d = tf.add(c, 1.0, name="d")
        with tf.device("/job:worker/task:0"):
            e = tf.Variable(1.0, name="e")
        f = tf.Variable(1.0, name="f")
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(a) * c * f + tf.reduce_sum(tf.square(b))
        train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
        with tf.device(None):
            tf.constant(1.0, name="nowhere")
    check("variables", [(var.name, var.device) for var in tf.global_variables()])
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        sizes = [tf.Variable(tf.zeros([size]), name="size_%d" % size) for size in (10, 3, 4, 2, 8)]
        tf.get_variable("resource", [100], use_resource=True, initializer=tf.zeros_initializer())
    check("greedy", [var.device for var in sizes])
    with tf.device(tf.train.replica_device_setter(ps_tasks=3, ps_strategy=tf.contrib.training.RandomStrategy(3, seed=7))):
        check("random", [tf.Variable(1.0, name="random_%d" % index).device for index in range(5)])
    with tf.device(tf.train.replica_device_setter(2, "/job:servers", "/job:workers/gpu:0", merge_devices=False, ps_ops=["Const"])):
        with tf.device("/cpu:1"):
            tf.constant(1.0, name="left_alone")
        check("ps_ops", [tf.constant(1.0, name="in_turn_%d" % index).device for index in range(3)] + [tf.no_op(name="work").device])
    setter = tf.train.replica_device_setter(ps_tasks=2)
    with tf.device(setter):
        g = tf.Variable(1.0, name="g")
    with tf.device("/job:else"), tf.device(setter):
        h = tf.Variable(1.0, name="h")
    check("shared turn", [g.device, h.device])
    check("called", [setter(d.op), setter(a.op), setter(tf.NodeDef(name="x", op="VariableV2", device="/gpu:3"))])
    check("nothing", [tf.train.replica_device_setter(), tf.train.replica_device_setter(cluster={"worker": ["a:1"]})])
    check("gaps", tf.train.replica_device_setter(cluster=cluster.as_cluster_def())(tf.NodeDef(name="x", op="Variable")))
    try:
        tf.train.replica_device_setter(ps_tasks=1, ps_strategy=3)
    except TypeError as error:
        check("strategy", str(error))
    with tf.Graph().as_default():

        def refuse(op):
            raise RuntimeError("not here: " + op.name)

        try:
            with tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_strategy=refuse)):
                tf.Variable(1.0, name="refused")
        except RuntimeError as error:
            check("refused", str(error))
