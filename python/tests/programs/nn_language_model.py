"""A small language model: embeddings, a deep LSTM, sequence loss, clipped gradients, Adam."""

import numpy as np

DIFFERENCES = {"clip_by_global_norm/*": "placed beside gradients, whose nodes have other names", "global_norm/L2Loss*": "placed beside gradients, whose nodes have other names"}


def program(tf, check):
    rng = np.random.RandomState(5)
    vocabulary, size = 11, 6

    def start(shape, dtype=None, partition_info=None):
        return tf.constant(0.4 * rng.randn(*[int(dim) for dim in shape]), dtype)

    words = tf.placeholder(tf.int32, [None, 5], name="words")
    with tf.variable_scope("model", initializer=start):
        embedding = tf.get_variable("embedding", [vocabulary, size])
        inputs = tf.nn.embedding_lookup(embedding, words[:, :-1])
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(size) for _ in range(2)])
        outputs, state = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
        logits = tf.layers.dense(outputs, vocabulary, name="logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words[:, 1:], logits=logits))
    variables = tf.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    train = tf.train.AdamOptimizer(0.05).apply_gradients(zip(gradients, variables))
    check("variables", [variable.name for variable in variables])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {words: rng.randint(0, vocabulary, [4, 5])}
        for _ in range(3):
            check("loss", sess.run([loss, norm, train], feeds)[:2])
        check("state", sess.run(state, feeds))
