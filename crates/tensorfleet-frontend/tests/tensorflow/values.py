"""Writes values.txt: what TensorFlow computes for the programs of ../training_values.rs.

Run with TensorFlow 2.21: python values.py > values.txt
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
tf1.logging.set_verbosity(tf1.logging.ERROR)
train = tf1.train


def show(title, values):
    print(title, "|", " ".join(repr(float(value)) for value in np.ravel(values)))


OPTIMIZERS = {
    "GradientDescent": lambda: train.GradientDescentOptimizer(0.1),
    "Adagrad": lambda: train.AdagradOptimizer(0.5),
    "Adam": lambda: train.AdamOptimizer(0.1),
    "Momentum": lambda: train.MomentumOptimizer(0.05, 0.9),
    "Nesterov": lambda: train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "RMSProp": lambda: train.RMSPropOptimizer(0.02, momentum=0.5),
    "CenteredRMSProp": lambda: train.RMSPropOptimizer(0.02, momentum=0.5, centered=True),
    "Ftrl": lambda: train.FtrlOptimizer(0.5, l1_regularization_strength=0.05, l2_regularization_strength=0.1),
    "FtrlV2": lambda: train.FtrlOptimizer(0.5, l2_shrinkage_regularization_strength=0.1),
    "Adadelta": lambda: train.AdadeltaOptimizer(1.0, rho=0.9),
    "AdagradDA": lambda: train.AdagradDAOptimizer(
        0.5, train.get_global_step(), l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
    "ProximalAdagrad": lambda: train.ProximalAdagradOptimizer(
        0.5, l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
    "ProximalGradientDescent": lambda: train.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
}


def optimizer(name, resource, dtype):
    with tf1.Graph().as_default(), tf1.Session() as session:
        with tf1.variable_scope("m"):
            v = tf1.Variable(np.array([1.0, -2.0], dtype), name="v", use_resource=resource)
            rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], dtype)
            e = tf1.Variable(rows, name="e", use_resource=resource)
        step = train.get_or_create_global_step()
        indices = tf.constant([2, 0, 2])
        wanted = tf.constant(np.array([[1.0, 1.0], [0.0, 1.0], [2.0, 0.0]], dtype))
        distance = tf.gather(e, indices) - wanted
        loss = tf.reduce_sum(v * v) + tf.reduce_sum(distance * distance)
        gradients = [(v * 2.0, v), (tf.IndexedSlices(distance * 2.0, indices, tf.constant([4, 2])), e)]
        update = OPTIMIZERS[name]().apply_gradients(gradients, global_step=step)
        session.run(tf1.global_variables_initializer())
        losses = []
        for _ in range(6):
            losses.append(session.run(loss))
            session.run(update)
        kind = "resource" if resource else "reference"
        title = f"{name} {kind} {np.dtype(dtype).name}"
        show(f"{title} loss", losses)
        for variable in tf1.global_variables():
            show(f"{title} {variable.op.name}", session.run(variable))


for name in OPTIMIZERS:
    for resource in (False, True):
        optimizer(name, resource, np.float32)
optimizer("Adam", False, np.float64)
optimizer("Adam", True, np.float64)
optimizer("RMSProp", False, np.float64)


def minimized(resource):
    with tf1.Graph().as_default(), tf1.Session() as session:
        w1 = tf1.Variable([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], name="w1", use_resource=resource)
        b1 = tf1.Variable([0.1, 0.2, 0.3], name="b1", use_resource=resource)
        w2 = tf1.Variable([[0.5], [-0.5], [0.25]], name="w2", use_resource=resource)
        x = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
        hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2) - [[1.0], [2.0], [3.0]]))
        update = train.AdamOptimizer(0.05).minimize(loss, global_step=train.get_or_create_global_step())
        session.run(tf1.global_variables_initializer())
        losses = []
        for _ in range(10):
            losses.append(session.run(loss))
            session.run(update)
        kind = "resource" if resource else "reference"
        show(f"minimize {kind} loss", losses)
        for variable in tf1.global_variables():
            show(f"minimize {kind} {variable.op.name}", session.run(variable))


minimized(False)
minimized(True)

STEPS = [0, 1, 4, 5, 9, 10, 11, 19, 20, 25]
SCHEDULES = {
    "exponential": lambda step: train.exponential_decay(0.1, step, 10, 0.9),
    "exponential staircase": lambda step: train.exponential_decay(0.1, step, 10, 0.9, staircase=True),
    "natural": lambda step: train.natural_exp_decay(0.1, step, 10, 0.5),
    "natural staircase": lambda step: train.natural_exp_decay(0.1, step, 10, 0.5, staircase=True),
    "inverse": lambda step: train.inverse_time_decay(0.1, step, 10, 0.5),
    "inverse staircase": lambda step: train.inverse_time_decay(0.1, step, 10, 0.5, staircase=True),
    "polynomial": lambda step: train.polynomial_decay(0.1, step, 10, 0.01, 2.0),
    "polynomial cycle": lambda step: train.polynomial_decay(0.1, step, 10, 0.01, 2.0, cycle=True),
    "cosine": lambda step: train.cosine_decay(0.1, step, 10, 0.2),
    "piecewise": lambda step: train.piecewise_constant(step, [5, 10], [1.0, 0.5, 0.1]),
}
for name, schedule in SCHEDULES.items():
    with tf1.Graph().as_default(), tf1.Session() as session:
        step = train.get_or_create_global_step()
        rate = schedule(step)
        session.run(tf1.global_variables_initializer())
        values = []
        for at in STEPS:
            step.load(at, session)
            values.append(session.run(rate))
        show(f"schedule {name}", values)

for resource in (False, True):
    for counted in (False, True):
        with tf1.Graph().as_default(), tf1.Session() as session:
            v = tf1.Variable([1.0, 2.0], name="v", use_resource=resource)
            step = train.get_or_create_global_step()
            x = tf1.placeholder(tf.float32, [2], name="x")
            average = train.ExponentialMovingAverage(0.9, num_updates=step if counted else None)
            update = average.apply([v, x])
            count = tf1.assign_add(step, 1)
            change = tf1.assign_add(v, [1.0, -3.0])
            session.run(tf1.global_variables_initializer())
            values = []
            for at in range(5):
                session.run(change)
                session.run(update, {x: [at, 10.0]})
                session.run(count)
                values.append(session.run([average.average(v), average.average(x)]))
            kind = ("resource" if resource else "reference") + (" counted" if counted else "")
            show(f"average {kind}", values)
with tf1.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, [2], name="x")
    average = train.ExponentialMovingAverage(0.9, zero_debias=True)
    update = average.apply([x])
    session.run(tf1.global_variables_initializer())
    values = []
    for at in range(5):
        session.run(update, {x: [at, 10.0]})
        values.append(session.run(average.average(x)))
    show("average debiased", values)

X = np.array([[3.0, -4.0, 0.0], [0.5, 0.25, -0.125]], np.float32)
Y = np.array([1.0, 2.0], np.float32)
with tf1.Graph().as_default(), tf1.Session() as session:
    x, y = tf.constant(X), tf.constant(Y)
    show("clip norm", session.run(tf1.clip_by_norm(x, 2.0)))
    show("clip norm of rows", session.run(tf1.clip_by_norm(x, 2.0, axes=[1])))
    show("clip norm of zeros", session.run(tf1.clip_by_norm(tf.zeros([2]), 2.0)))
    show("clip average norm", session.run(tf1.clip_by_average_norm(x, 0.5)))
    for limit in (3.0, 30.0):
        (first, none, second), norm = tf1.clip_by_global_norm([x, None, y], limit)
        first, second, norm = session.run([first, second, norm])
        show(f"clip global norm {limit}", np.concatenate([first.ravel(), second, [norm]]))

LABELS = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], np.float32)
LOGITS = np.array([[0.2, 1.5, -3.0], [0.1, 0.9, 0.3], [-40.0, 50.0, 2.0], [1.0, 0.5, 0.25]], np.float32)
PROBABILITIES = np.array([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]], np.float32)
WEIGHTS = np.array([[1.0], [0.0], [2.0], [0.5]], np.float32)
with tf1.Graph().as_default(), tf1.Session() as session:
    losses = tf1.losses
    labels, logits = tf.constant(LABELS), tf.constant(LOGITS)
    classes = tf.constant([1, 0, 2, 1])
    probabilities = tf.constant(PROBABILITIES)
    show("loss mean_squared_error", session.run(losses.mean_squared_error(labels, logits)))
    show("loss absolute_difference", session.run(losses.absolute_difference(labels, logits)))
    show("loss sigmoid_cross_entropy", session.run(losses.sigmoid_cross_entropy(labels, logits)))
    show("loss softmax_cross_entropy", session.run(losses.softmax_cross_entropy(labels, logits)))
    smoothed = losses.softmax_cross_entropy(labels, logits, label_smoothing=0.1)
    show("loss softmax_cross_entropy smoothed", session.run(smoothed))
    show("loss sparse_softmax_cross_entropy", session.run(losses.sparse_softmax_cross_entropy(classes, logits)))
    show("loss log_loss", session.run(losses.log_loss(labels, probabilities)))
    show("loss hinge_loss", session.run(losses.hinge_loss(labels, logits)))
    show("loss huber_loss", session.run(losses.huber_loss(labels, logits, delta=0.7)))
    for reduction in (
        "none",
        "weighted_sum",
        "weighted_mean",
        "weighted_sum_over_batch_size",
        "weighted_sum_by_nonzero_weights",
    ):
        weighted = losses.mean_squared_error(labels, logits, WEIGHTS, reduction=reduction)
        show(f"loss {reduction}", session.run(weighted))
    per_row = losses.sparse_softmax_cross_entropy(classes, logits, weights=WEIGHTS[:, 0])
    show("loss weighted rows", session.run(per_row))

with tf1.Graph().as_default(), tf1.Session() as session:
    x = tf.constant(X)
    show("l2_normalize", session.run(tf1.nn.l2_normalize(x, 1)))
    mean, variance = session.run(tf1.nn.moments(x, [0]))
    show("moments", np.concatenate([mean, variance]))
with tf1.Graph().as_default(), tf1.Session() as session:
    tf1.set_random_seed(7)
    init = tf1.initializers
    for name, initializer in {
        "random_normal": init.random_normal(1.0, 0.5, seed=2),
        "truncated_normal": init.truncated_normal(0.0, 1.0, seed=3),
        "random_uniform": init.random_uniform(-1.0, 1.0, seed=4),
        "glorot_uniform": tf1.glorot_uniform_initializer(seed=6),
        "glorot_normal": tf1.glorot_normal_initializer(seed=8),
        "he_normal": init.he_normal(seed=5),
    }.items():
        variable = tf1.get_variable(name, [2, 3], initializer=initializer)
        session.run(variable.initializer)
        show(f"initializer {name}", session.run(variable))
