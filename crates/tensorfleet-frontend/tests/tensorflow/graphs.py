"""Writes graphs.txt: the nodes that TensorFlow makes for the programs of ../training_graphs.rs.

Run with TensorFlow 2.21: python graphs.py > graphs.txt
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def listing():
    for node in tf1.get_default_graph().as_graph_def().node:
        data = [name for name in node.input if not name.startswith("^")]
        control = sorted(name for name in node.input if name.startswith("^"))
        classes = b",".join(sorted(node.attr["_class"].list.s)) if "_class" in node.attr else b""
        fields = [node.name, node.op, ",".join(data + control), node.device, classes.decode()]
        for name in ("use_locking", "use_nesterov"):
            if name in node.attr and node.attr[name].b:
                fields.append(name)
        yield " | ".join(fields).rstrip()


def section(title, program):
    with tf1.Graph().as_default():
        print("==", title)
        program()
        for line in listing():
            print(line)


OPTIMIZERS = {
    "GradientDescent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "Adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "Adam": lambda: tf1.train.AdamOptimizer(0.1),
    "Momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "RMSProp": lambda: tf1.train.RMSPropOptimizer(0.1, momentum=0.5),
    "CenteredRMSProp": lambda: tf1.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "Ftrl": lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "FtrlV2": lambda: tf1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.01),
    "Adadelta": lambda: tf1.train.AdadeltaOptimizer(0.1),
}


def slices():
    return tf.IndexedSlices(
        tf.constant([[0.1, 0.2], [0.3, 0.4]], name="values"),
        tf.constant([1, 1], name="indices"),
        tf.constant([3, 2], name="shape"),
    )


def step(resource):
    zeros = tf1.zeros_initializer()
    return tf1.get_variable(
        "global_step", [], tf.int64, initializer=zeros, trainable=False, use_resource=resource
    )


def one_step(optimizer, resource):
    with tf1.variable_scope("m"):
        v = tf1.Variable([1.0, 2.0], name="v", use_resource=resource)
        e = tf1.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="e", use_resource=resource)
    counter = step(resource)
    gradients = [(tf.constant([0.1, 0.2], name="dense"), v), (slices(), e)]
    optimizer().apply_gradients(gradients, global_step=counter)


def on_a_cluster(resource):
    cluster = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1"]})
    with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")):
        a = tf1.Variable([1.0, 2.0], name="a", use_resource=resource)
        b = tf1.Variable([1.0, 2.0], name="b", use_resource=resource)
        counter = step(resource)
        g = tf.constant([1.0, 1.0])
        tf1.train.AdamOptimizer(0.1).apply_gradients([(g, a), (g, b)], global_step=counter)
        one_row = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), tf.constant([2]))
        tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(g, a), (one_row, b)], global_step=counter)
        tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(g, a), (None, b)])


def in_scopes():
    with tf1.name_scope("ns"):
        v = tf1.Variable([1.0, 2.0], name="v")
        g = tf.constant([1.0, 1.0])
        adam = tf1.train.AdamOptimizer(0.1)
        adam.apply_gradients([(g, v)])
        adam.apply_gradients([(g, v)])
        tf1.train.AdamOptimizer(0.1).apply_gradients([(g, v)])
        tf1.train.AdamOptimizer(0.1, name="Mine").apply_gradients([(g, v)], name="train")
        with tf1.variable_scope("vs"):
            tf1.train.AdagradOptimizer(0.1, use_locking=True).apply_gradients([(g, v)])
            rate = tf.constant(0.1, name="rate")
            tf1.train.MomentumOptimizer(rate, 0.9).apply_gradients([(g, v)])


def variables():
    tf1.set_random_seed(7)
    init = tf1.initializers
    with tf1.variable_scope("s"):
        tf1.get_variable("zeros", [3, 2], initializer=init.zeros())
        tf1.get_variable("ones", [3, 2], initializer=init.ones(), use_resource=True)
        tf1.get_variable("constant", [3, 2], initializer=init.constant(0.3))
        tf1.get_variable("normal", [3, 2], initializer=init.random_normal(1.0, 0.5))
        tf1.get_variable("truncated", [3, 2], initializer=init.truncated_normal(), use_resource=True)
        tf1.get_variable("uniform", [3, 2], initializer=init.random_uniform(-1.0, 1.0))
        tf1.get_variable("default", [3, 2])
    tf1.get_variable("integers", [2], tf.int32)
    tf1.get_variable("value", initializer=[1.0, 2.0])
    tf1.get_variable("resource_value", initializer=[1.0, 2.0], use_resource=True)
    for _ in range(2):
        with tf1.variable_scope("again", reuse=tf1.AUTO_REUSE):
            v = tf1.get_variable("w", [2], initializer=init.zeros())
            tf1.add(v, 1.0)
    for _ in range(2):
        with tf1.variable_scope(None, "unique"):
            tf1.get_variable("w", [2], initializer=init.zeros())


def schedules():
    counter = step(False)
    train = tf1.train
    train.exponential_decay(0.1, counter, 10, 0.9)
    train.exponential_decay(0.1, counter, 10, 0.9, staircase=True)
    train.polynomial_decay(0.1, counter, 10, 0.01, 2.0)
    train.polynomial_decay(0.1, counter, 10, 0.01, 2.0, cycle=True)
    train.natural_exp_decay(0.1, counter, 10, 0.5)
    train.natural_exp_decay(0.1, counter, 10, 0.5, staircase=True)
    train.inverse_time_decay(0.1, counter, 10, 0.5)
    train.inverse_time_decay(0.1, counter, 10, 0.5, staircase=True)
    train.cosine_decay(0.1, counter, 10, 0.2)


def resource_schedule():
    tf1.train.exponential_decay(0.1, step(True), 10, 0.9)


def averages(resource, counted):
    v = tf1.Variable([1.0, 2.0], name="v", use_resource=resource)
    counter = step(resource) if counted else None
    tf1.train.ExponentialMovingAverage(0.9, num_updates=counter).apply([v])


def averages_of_outputs():
    v = tf1.Variable([1.0, 2.0], name="v")
    x = tf1.placeholder(tf.float32, [2], name="x")
    with tf1.name_scope("ns"):
        tf1.train.ExponentialMovingAverage(0.9, zero_debias=True, name="E").apply([v, x])


def clips():
    x = tf1.placeholder(tf.float32, [2, 3], name="x")
    y = tf1.placeholder(tf.float32, [2], name="y")
    tf1.clip_by_norm(x, 2.0)
    tf1.clip_by_norm(x, 2.0, axes=[1])
    tf1.clip_by_global_norm([x, None, y], 3.0)
    tf1.clip_by_average_norm(x, 2.0)
    tf1.global_norm([x, y])
    rows = tf.IndexedSlices(x, tf.constant([1, 1]), tf.constant([5, 3]))
    tf1.clip_by_norm(rows, 2.0)
    tf1.clip_by_global_norm([rows], 3.0)


def uninitialized():
    a = tf1.Variable(1.0, name="a")
    tf1.Variable(1.0, name="b", use_resource=True)
    tf1.report_uninitialized_variables()
    tf1.is_variable_initialized(a)
    tf1.assert_variables_initialized()
    tf1.variables_initializer([a])


def layers():
    x = tf1.placeholder(tf.float32, [None, 3], name="x")
    tf1.nn.dropout(x, keep_prob=0.7)
    tf1.nn.dropout(x, rate=0.3, seed=5)
    tf1.nn.l2_normalize(x, 1)
    tf1.nn.moments(x, [0])
    tf1.nn.xw_plus_b(x, tf.constant([[1.0], [2.0], [3.0]], name="W"), tf.constant([1.0], name="B"))


for name, optimizer in OPTIMIZERS.items():
    section(f"{name} reference", lambda: one_step(optimizer, False))
    section(f"{name} resource", lambda: one_step(optimizer, True))
section("cluster reference", lambda: on_a_cluster(False))
section("cluster resource", lambda: on_a_cluster(True))
section("scopes", in_scopes)
section("variables", variables)
section("schedules", schedules)
section("resource schedule", resource_schedule)
section("averages reference", lambda: averages(False, False))
section("averages resource", lambda: averages(True, False))
section("counted averages reference", lambda: averages(False, True))
section("counted averages resource", lambda: averages(True, True))
section("averages of outputs", averages_of_outputs)
section("clips", clips)
section("uninitialized", uninitialized)
section("layers", layers)
