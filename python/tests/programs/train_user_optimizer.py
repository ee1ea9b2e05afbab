"""Classes of programs: an optimizer of its own with slots, and ones that change those of TensorFlow."""

import numpy as np


def program(tf, check):
    class Sign(tf.train.Optimizer):
        def __init__(self, rate, use_locking=False, name="Sign"):
            super(Sign, self).__init__(use_locking, name)
            self._rate = rate

        def _prepare(self):
            self._rate_t = tf.convert_to_tensor(self._call_if_callable(self._rate), name="rate")

        def _create_slots(self, var_list):
            for var in var_list:
                self._zeros_slot(var, "m", self._name)
                self._get_or_make_slot(var, tf.ones_like(var.initialized_value()), "count", "counts")

        def _apply_dense(self, grad, var):
            m = self.get_slot(var, "m")
            moved = m.assign(0.9 * m + tf.sign(grad))
            counted = self.get_slot(var, "count").assign_add(tf.ones_like(grad))
            return tf.group(var.assign_sub(self._rate_t * moved), counted)

        def _resource_apply_dense(self, grad, var):
            return self._apply_dense(grad, var)

        def _apply_sparse(self, grad, var):
            return tf.scatter_sub(var, grad.indices, self._rate_t * tf.sign(grad.values))

    class Clipped(tf.train.AdamOptimizer):
        def compute_gradients(self, *args, **kwargs):
            pairs = super(Clipped, self).compute_gradients(*args, **kwargs)
            return [(None if grad is None else tf.clip_by_value(grad, -0.1, 0.1), var) for grad, var in pairs]

    class Decayed(tf.train.MomentumOptimizer):
        def _apply_dense(self, grad, var):
            return super(Decayed, self)._apply_dense(grad + 0.1 * var, var)

        def _finish(self, update_ops, name_scope):
            with tf.control_dependencies(update_ops):
                extra = tf.no_op(name="extra")
            return super(Decayed, self)._finish(list(update_ops) + [extra], name_scope)

    x = tf.Variable([3.0, -4.0], name="x")
    table = tf.Variable([[1.0], [2.0], [3.0]], name="table")
    unused = tf.Variable(1.0, name="unused")
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(tf.square(x)) + tf.reduce_sum(tf.square(tf.gather(table, [2, 2, 0])))
    optimizer = Sign(lambda: 0.5)
    train = optimizer.minimize(loss, step)
    clipped = Clipped(0.1).minimize(loss, var_list=[x])
    decayed = Decayed(0.1, 0.9).minimize(tf.reduce_sum(tf.square(x)), step, var_list=[x])
    check("slots", [optimizer.get_slot(x, name).name for name in optimizer.get_slot_names()])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in range(3):
            for op in (train, clipped, decayed):
                sess.run(op)
            check("values %d" % count, [np.asarray(value) for value in sess.run([x, table, step])])
    try:
        tf.train.Optimizer(False, "Bare").minimize(loss)
    except NotImplementedError as error:
        check("bare", str(error))
    for name, call in (
        ("no name", lambda: tf.train.Optimizer(False, "")),
        ("nothing to train", lambda: tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[])),
        ("nothing depends", lambda: tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[unused])),
        ("no pairs", lambda: tf.train.GradientDescentOptimizer(0.1).apply_gradients([])),
        ("no gradients", lambda: tf.train.GradientDescentOptimizer(0.1).apply_gradients([(None, x)])),
        ("gate", lambda: tf.train.GradientDescentOptimizer(0.1).minimize(loss, gate_gradients=7)),
    ):
        try:
            call()
            check(name, "nothing raised")
        except ValueError as error:
            check(name, str(error).split(" and loss ")[0])
