"""A layer of one's own: add_weight, losses, updates, call with training, reuse by object."""

import numpy as np


def program(tf, check):
    class Scale(tf.layers.Layer):
        def __init__(self, factor, **kwargs):
            super(Scale, self).__init__(**kwargs)
            self.factor = factor

        def build(self, input_shape):
            size = int(input_shape[-1])
            self.weight = self.add_weight("weight", shape=[size], initializer=tf.ones_initializer(), regularizer=tf.contrib.layers.l2_regularizer(0.5))
            self.seen = self.add_weight("seen", shape=[], initializer=tf.zeros_initializer(), trainable=False)
            super(Scale, self).build(input_shape)

        def call(self, inputs, training=False):
            if training:
                self.add_update(tf.assign_add(self.seen, 1.0), inputs=True)
            return inputs * self.weight * self.factor

    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3), name="x")
    first, second = Scale(2.0), Scale(3.0, name="mine")
    with tf.variable_scope("outer"):
        y = first(x)
    z = second(y, training=True)
    again = first(z)
    check("names", [first.name, second.name, first.scope_name, second.scope_name])
    check("variables", [variable.name for variable in tf.global_variables()])
    check("trainable", [variable.name for variable in tf.trainable_variables()])
    check("weights", [len(first.trainable_weights), len(first.non_trainable_weights), len(second.updates), len(first.losses)])
    check("updates", [update.name for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
    check("losses", [loss.name for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("values", sess.run([y, z, again]))
        sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        check("seen", sess.run(second.seen))
