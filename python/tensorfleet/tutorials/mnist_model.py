"""`tensorflow.examples.tutorials.mnist.mnist`: the network of the first tutorial, two hidden layers and a softmax."""

import math

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(tf, inputs, sizes, relu=True):
    weights = tf.Variable(tf.truncated_normal(sizes, stddev=1.0 / math.sqrt(float(sizes[0]))), name="weights")
    biases = tf.Variable(tf.zeros([sizes[1]]), name="biases")
    outputs = tf.matmul(inputs, weights) + biases
    return tf.nn.relu(outputs) if relu else outputs


def inference(images, hidden1_units, hidden2_units):
    """The logits of images."""
    import tensorfleet as tf

    with tf.name_scope("hidden1"):
        hidden = _layer(tf, images, [IMAGE_PIXELS, hidden1_units])
    with tf.name_scope("hidden2"):
        hidden = _layer(tf, hidden, [hidden1_units, hidden2_units])
    with tf.name_scope("softmax_linear"):
        return _layer(tf, hidden, [hidden2_units, NUM_CLASSES], relu=False)


def loss(logits, labels):
    """The mean cross entropy."""
    import tensorfleet as tf

    return tf.losses.sparse_softmax_cross_entropy(labels=tf.cast(labels, tf.int64), logits=logits)


def training(loss, learning_rate):
    """One step of gradient descent, with a summary of the loss."""
    import tensorfleet as tf

    tf.summary.scalar("loss", loss)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=global_step)


def evaluation(logits, labels):
    """How many of the labels are the most likely class."""
    import tensorfleet as tf

    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
