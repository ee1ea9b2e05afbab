"""tf.contrib.framework: variables by scope and name, arg scopes, values by name and from a checkpoint."""

import os

import numpy as np

DIFFERENCES = {"save_1/*": "TensorFlow makes a saver of the first checkpoint format here, which only restores; ours is of the second"}


def program(tf, check):
    framework = tf.contrib.framework
    directory = os.environ["DIFFERENTIAL_DIRECTORY"]
    with tf.variable_scope("a"):
        one = framework.model_variable("one", [2], initializer=tf.ones_initializer(), regularizer=tf.contrib.layers.l1_regularizer(0.5))
        two = framework.variable("two", [2], initializer=tf.zeros_initializer(), collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES])
    local = framework.local_variable(3.0, name="local")
    other = framework.global_variable([1.0, 2.0], name="other")
    check("lists", [[variable.name for variable in found] for found in (
        framework.get_variables(), framework.get_variables("a"), framework.get_model_variables(), framework.get_local_variables(),
        framework.get_variables_by_suffix("o"), framework.get_variables_by_name("one"), framework.get_variables_to_restore(include=["a"], exclude=["a/two"]),
        framework.filter_variables(tf.global_variables(), exclude_patterns=["two"]), tf.get_collection("mine"),
    )])
    check("unique", framework.get_unique_variable("a/two").name)
    step = framework.get_or_create_global_step()
    check("same step", framework.get_global_step() is step)

    @framework.add_arg_scope
    def layer(value, size=1, name="none"):
        return (value, size, name)

    with framework.arg_scope([layer], size=3) as kept:
        with framework.arg_scope([layer], name="inner"):
            check("scoped", [layer(1), layer(1, size=5)])
        check("outer", layer(2))
    with framework.arg_scope(kept):
        check("again", layer(3))
    check("outside", [layer(4), framework.has_arg_scope(layer), framework.has_arg_scope(check)])
    assign, feeds = framework.assign_from_values({"a/one": np.array([5.0, 6.0])})
    saver = tf.train.Saver([one, two, other])
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.run(assign, feeds)
        check("assigned", sess.run([one, two, local]))
        path = saver.save(sess, os.path.join(directory, "model"), global_step=step)
        sess.run(tf.global_variables_initializer())
        restore, values = framework.assign_from_checkpoint(path, [one, other])
        sess.run(restore, values)
        check("restored", sess.run([one, other]))
        sess.run(one.assign([0.0, 0.0]))
        framework.assign_from_checkpoint_fn(path, {"a/one": one, "absent": two}, ignore_missing_vars=True)(sess)
        check("by function", sess.run(one))
    try:
        framework.assign_from_checkpoint(path, {"absent": two})
        check("refused", "no")
    except ValueError as error:
        check("refused", type(error).__name__)
    check("arrays", np.asarray(framework.load_variable(path, "a/one")))
    check("listed", framework.list_variables(path))
    check("tensor", [framework.is_tensor(one), framework.is_tensor(3), framework.nest.flatten([1, (2, [3])])])
