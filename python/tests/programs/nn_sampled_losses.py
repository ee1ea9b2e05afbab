"""Sampled losses with given candidates, so that nothing is left to chance."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(5)
    weights = tf.get_variable("weights", initializer=rng.randn(6, 3).astype(np.float32))
    biases = tf.get_variable("biases", initializer=np.zeros(6, np.float32))
    inputs = tf.constant(rng.randn(4, 3).astype(np.float32), name="inputs")
    labels = tf.constant([[0], [1], [5], [2]], tf.int64, name="labels")
    sampled = (tf.constant([1, 3], tf.int64), tf.fill([4, 1], 0.5), tf.constant([0.25, 0.75]))
    nce = tf.nn.nce_loss(weights, biases, labels, inputs, 2, 6, sampled_values=sampled)
    softmax = tf.nn.sampled_softmax_loss(weights, biases, labels, inputs, 2, 6, sampled_values=sampled)
    drawn = tf.nn.log_uniform_candidate_sampler(labels, 1, 3, True, 6, seed=3)
    everything = tf.nn.all_candidate_sampler(labels, 1, 6, True)
    gradients = tf.gradients(tf.reduce_sum(nce) + tf.reduce_sum(softmax), [weights, biases, inputs])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("nce", sess.run(nce))
        check("sampled softmax", sess.run(softmax))
        check("gradients", sess.run([tf.convert_to_tensor(gradient) for gradient in gradients]))
        check("all", sess.run(everything))
        check("unique", len(set(sess.run(drawn).sampled_candidates)))
