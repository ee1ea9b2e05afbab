"""Training with fixed initial values and fixed feeds, whose losses must be the same wherever it runs."""

import numpy as np

import mnist
from compat import tf

_STEPS = 25


class Case:
    """A model, an optimiser and a kind of variable."""

    def __init__(self, model, optimizer, use_resource):
        self.model = model
        self.optimizer = optimizer
        self.use_resource = use_resource


_OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.005),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def _initial(random, shape, deviation):
    return (random.randn(*shape) * deviation).astype(np.float32)


def _layers(images, labels, use_resource):
    """Two dense layers; mean cross entropy."""
    random = np.random.RandomState(11)
    w1 = tf.Variable(_initial(random, [mnist.PIXELS, 32], 0.05), name="w1", use_resource=use_resource)
    b1 = tf.Variable(np.zeros(32, np.float32), name="b1", use_resource=use_resource)
    w2 = tf.Variable(_initial(random, [32, mnist.CLASSES], 0.2), name="w2", use_resource=use_resource)
    b2 = tf.Variable(np.zeros(mnist.CLASSES, np.float32), name="b2", use_resource=use_resource)
    hidden = tf.nn.relu(tf.nn.xw_plus_b(images, w1, b1))
    logits = tf.nn.xw_plus_b(hidden, w2, b2)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def _convolution(images, labels, use_resource):
    """A convolution, pooling and a dense layer; mean cross entropy."""
    random = np.random.RandomState(12)
    kernel = tf.Variable(_initial(random, [5, 5, 1, 4], 0.2), name="kernel", use_resource=use_resource)
    bias = tf.Variable(np.zeros(4, np.float32), name="bias", use_resource=use_resource)
    dense = tf.Variable(_initial(random, [14 * 14 * 4, mnist.CLASSES], 0.05), name="dense", use_resource=use_resource)
    pictures = tf.reshape(images, [-1, 28, 28, 1])
    features = tf.nn.relu(tf.nn.conv2d(pictures, kernel, strides=[1, 1, 1, 1], padding="SAME") + bias)
    pooled = tf.nn.max_pool(features, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = tf.matmul(tf.reshape(pooled, [-1, 14 * 14 * 4]), dense)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def _embedding(images, labels, use_resource):
    """Rows looked up in a table, so that gradients are sparse; mean squared error."""
    random = np.random.RandomState(13)
    table = tf.Variable(_initial(random, [20, 8], 0.3), name="table", use_resource=use_resource)
    rows = tf.argmax(labels, axis=1)
    wanted = tf.tile(tf.reduce_mean(images, axis=1, keepdims=True), [1, 8])
    return tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, rows) - wanted))


def _cases():
    cases = {}
    for kind, use_resource in (("ref", False), ("resource", True)):
        for name, optimizer in _OPTIMIZERS.items():
            cases["layers_%s_%s" % (name, kind)] = Case(_layers, optimizer, use_resource)
        cases["convolution_adam_" + kind] = Case(_convolution, _OPTIMIZERS["adam"], use_resource)
        cases["embedding_adagrad_" + kind] = Case(_embedding, _OPTIMIZERS["adagrad"], use_resource)
    return cases


CASES = _cases()


def curve(case, target, device):
    """The losses of each step."""
    digits, _ = mnist.load(seed=3)
    with tf.Graph().as_default():
        with tf.device(device):
            images = tf.placeholder(tf.float32, [None, mnist.PIXELS])
            labels = tf.placeholder(tf.float32, [None, mnist.CLASSES])
            loss = case.model(images, labels, case.use_resource)
            step = tf.train.get_or_create_global_step()
            train = case.optimizer().minimize(loss, global_step=step)
            init = tf.global_variables_initializer()
        with tf.Session(target) as session:
            session.run(init)
            losses = []
            for _ in range(_STEPS):
                batch = digits.next_batch(32)
                feeds = dict(zip((images, labels), batch))
                losses.append(float(session.run(loss, feeds)))
                session.run(train, feeds)
            assert session.run(step) == _STEPS
    return losses


def distance(expected, actual):
    """The largest difference, relative where losses are above 1."""
    return max(abs(a - e) / max(1.0, abs(e)) for e, a in zip(expected, actual))
