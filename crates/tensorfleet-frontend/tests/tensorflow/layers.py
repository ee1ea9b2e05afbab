"""Writes layers.txt: what TensorFlow computes for the programs of ../layers.rs.

Run with TensorFlow 1.15, the last version with these layers: python layers.py > layers.txt
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

tf = tf.compat.v1
tf.logging.set_verbosity(tf.logging.ERROR)


def show(title, values):
    print(title, "|", " ".join(repr(float(value)) for value in np.ravel(values)))


def pattern(shape, period=11):
    """Numbers that look irregular and can be made again anywhere: (7 i mod period - period / 2) / 10."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % period - period // 2) / 10.0).astype(np.float32).reshape(shape)


def variables(title):
    text = " ".join(
        f"{v.op.name}{list(v.shape.as_list())}{'t' if v in tf.trainable_variables() else ''}".replace(" ", "")
        for v in tf.global_variables()
    )
    print(title, "variables |", text)


def fill(session):
    """Gives all trainable variables values of the pattern, and initialises the others."""
    session.run(tf.global_variables_initializer())
    for variable in tf.trainable_variables():
        variable.load(pattern(variable.shape.as_list(), 13), session)


def fresh(work):
    with tf.Graph().as_default(), tf.Session() as session:
        work(session)


def conv(session):
    x = tf.constant(pattern([2, 7, 6, 3]))
    cases = {
        "valid": dict(padding="valid"),
        "same strided": dict(padding="same", strides=(2, 1)),
        "dilated": dict(padding="same", dilation_rate=(2, 2)),
    }
    outputs = {
        name: tf.layers.conv2d(x, 4, (3, 2), activation=tf.nn.relu, **case) for name, case in cases.items()
    }
    variables("conv2d")
    fill(session)
    for name, y in outputs.items():
        show(f"conv2d {name}", session.run(y))
    show("max_pool2d", session.run(tf.layers.max_pooling2d(x, 3, 2, padding="same")))
    show("avg_pool2d", session.run(tf.layers.average_pooling2d(x, (2, 3), (2, 1))))
    print("flatten |", *tf.layers.flatten(x).shape.as_list())


def batch_norm(title, shape):
    def work(session):
        x = tf.constant(pattern(shape))
        y = tf.layers.batch_normalization(x, training=True, momentum=0.9, name="bn")
        inferred = tf.layers.batch_normalization(x, training=False, momentum=0.9, name="bn", reuse=True)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        weights = tf.constant(pattern(shape, 7))
        gradients = tf.gradients(tf.reduce_sum(y * weights), [x] + tf.trainable_variables())
        variables(title)
        fill(session)
        for name, value in zip(["x", "gamma", "beta"], session.run(gradients)):
            show(f"{title} gradient {name}", value)
        for _ in range(2):
            value, _ = session.run([y, updates])
        show(f"{title} training", value)
        for variable in tf.global_variables():
            if "moving" in variable.name:
                show(f"{title} {variable.op.name}", session.run(variable))
        show(f"{title} inference", session.run(inferred))

    fresh(work)


LENGTHS = [4, 2, 0]


def recurrent(title, cell):
    def work(session):
        x = tf.constant(pattern([3, 4, 2]))
        outputs, state = tf.nn.dynamic_rnn(cell(), x, dtype=tf.float32)
        variables(title)
        weights = tf.constant(pattern(outputs.shape.as_list(), 7))
        gradients = tf.gradients(tf.reduce_sum(outputs * weights), [x] + tf.trainable_variables())
        fill(session)
        show(f"{title} outputs", session.run(outputs))
        show(f"{title} state", np.concatenate([np.ravel(s) for s in tf.nest.flatten(session.run(state))]))
        show(f"{title} gradients", np.concatenate([np.ravel(g) for g in session.run(gradients)]))

    def ragged(session):
        x = tf.constant(pattern([3, 4, 2]))
        outputs, state = tf.nn.dynamic_rnn(cell(), x, sequence_length=LENGTHS, dtype=tf.float32)
        weights = tf.constant(pattern(outputs.shape.as_list(), 7))
        gradients = tf.gradients(tf.reduce_sum(outputs * weights), [x] + tf.trainable_variables())
        fill(session)
        show(f"{title} ragged outputs", session.run(outputs))
        show(f"{title} ragged state", np.concatenate([np.ravel(s) for s in tf.nest.flatten(session.run(state))]))
        show(f"{title} ragged gradients", np.concatenate([np.ravel(g) for g in session.run(gradients)]))

    fresh(work)
    fresh(ragged)


def embedding(session):
    ids = tf.constant([[3, 0, 6], [5, 6, 1]], tf.int64)
    for strategy in ["mod", "div"]:
        with tf.variable_scope(strategy):
            table = tf.get_variable("table", [7, 2], partitioner=tf.fixed_size_partitioner(3))
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy=strategy)
        gradients = tf.gradients(tf.reduce_sum(rows * pattern([2, 3, 2], 7)), list(table))
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        fill(session)
        show(f"embedding {strategy}", session.run(rows))
        show(f"embedding {strategy} gradients", np.concatenate(session.run(dense)))
    variables("embedding")
    sparse_ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0], [2, 1], [2, 3]], tf.constant([3, 0, 6, 3, 5], tf.int64), [3, 4])
    weights = tf.SparseTensor(sparse_ids.indices, tf.constant([1.0, 2.0, 0.5, 3.0, 0.0]), [3, 4])
    for combiner in ["sum", "mean", "sqrtn"]:
        for name, sp_weights in [("", None), (" weighted", weights)]:
            rows = tf.nn.embedding_lookup_sparse(table, sparse_ids, sp_weights, "div", combiner=combiner)
            gradients = tf.gradients(tf.reduce_sum(rows * pattern([3, 2], 7)), list(table))
            show(f"embedding_sparse {combiner}{name}", session.run(rows))
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            show(f"embedding_sparse {combiner}{name} gradients", np.concatenate(session.run(dense)))
    safe_ids = tf.SparseTensor([[0, 0], [0, 1], [3, 0], [3, 1]], tf.constant([3, -1, 6, 2], tf.int64), [4, 2])
    safe = tf.nn.safe_embedding_lookup_sparse(list(table), safe_ids, combiner="mean", partition_strategy="div")
    show("embedding_safe", session.run(safe))


def partitions(_):
    for name, partitioner, shapes in [
        ("fixed", tf.fixed_size_partitioner(3), [[7, 2], [2, 5]]),
        ("fixed axis 1", tf.fixed_size_partitioner(2, axis=1), [[7, 5]]),
        ("variable_axis_size", tf.variable_axis_size_partitioner(64, max_shards=5), [[7, 4], [100, 4], [2, 1]]),
        ("min_max", tf.min_max_variable_partitioner(4, min_slice_size=64), [[7, 4], [100, 4], [5, 5]]),
    ]:
        for shape in shapes:
            with tf.Graph().as_default():
                parts = list(tf.get_variable("v", shape, partitioner=partitioner))
                text = " ".join(f"{v.op.name}:{v._save_slice_info.spec.replace(' ', '_')}" for v in parts)
                print(f"partition {name} {shape} |".replace(", ", ","), text)


def metrics(session):
    labels = tf.placeholder(tf.float32, [None])
    predictions = tf.placeholder(tf.float32, [None])
    weights = tf.placeholder(tf.float32, [None])
    decided = tf.cast(predictions > 0.5, tf.float32)
    each = {
        "mean": tf.metrics.mean(predictions),
        "weighted mean": tf.metrics.mean(predictions, weights),
        "accuracy": tf.metrics.accuracy(labels, decided),
        "weighted accuracy": tf.metrics.accuracy(labels, decided, weights),
        "precision": tf.metrics.precision(labels, decided),
        "recall": tf.metrics.recall(labels, decided, weights),
        "auc": tf.metrics.auc(labels, predictions),
        "weighted auc": tf.metrics.auc(labels, predictions, weights),
        "auc pr": tf.metrics.auc(labels, predictions, curve="PR", num_thresholds=20, summation_method="careful_interpolation"),
        "mean_squared_error": tf.metrics.mean_squared_error(labels, predictions),
        "root_mean_squared_error": tf.metrics.root_mean_squared_error(labels, predictions),
    }
    print("metrics variables |", *[f"{v.op.name}{v.shape.as_list()}" for v in tf.local_variables()])
    session.run(tf.local_variables_initializer())
    for batch in range(2):
        count = [8, 5][batch]
        p = (np.arange(count) * 7 % 11 / 11.0 + 0.01 * batch).astype(np.float32)
        l = (np.arange(count) * 3 % 5 % 2).astype(np.float32)
        w = (np.arange(count) % 3 / 2.0).astype(np.float32)
        feed = {labels: l, predictions: p, weights: w}
        for name, (value, update) in each.items():
            show(f"metric {name} {batch}", [session.run(update, feed), session.run(value)])


def sampled(session):
    weights = tf.get_variable("weights", [9, 3], partitioner=tf.fixed_size_partitioner(2))
    biases = tf.get_variable("biases", [9])
    inputs = tf.constant(pattern([2, 3]))
    for num_true, labels in [(1, [[3], [5]]), (2, [[3, 1], [5, 5]])]:
        labels = tf.constant(labels, tf.int64)
        values = (
            tf.constant([3, 0, 7, 1], tf.int64),
            tf.constant(0.1 + np.arange(2 * num_true, dtype=np.float32).reshape([2, num_true]) / 10),
            tf.constant([0.4, 0.9, 0.2, 0.7]),
        )
        for name, loss in [("nce", tf.nn.nce_loss), ("sampled_softmax", tf.nn.sampled_softmax_loss)]:
            for hits in [False, True]:
                y = loss(weights, biases, labels, inputs, 4, 9, num_true=num_true, sampled_values=values,
                         remove_accidental_hits=hits, partition_strategy="div")
                gradients = tf.gradients(tf.reduce_sum(y), [inputs, biases] + list(weights))
                dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
                fill(session)
                title = f"{name} {num_true} {'without' if hits else 'with'} hits"
                show(title, session.run(y))
                show(f"{title} gradients", np.concatenate([np.ravel(g) for g in session.run(dense)]))


def losses(session):
    labels, logits = tf.constant([1.0, 0.0, 1.0]), tf.constant([0.3, -0.7, 2.0])
    weighted = tf.nn.weighted_cross_entropy_with_logits(labels=labels, logits=logits, pos_weight=3.0)
    show("weighted_cross_entropy", session.run(weighted))
    a = tf.constant(pattern([2, 3]))
    b = tf.constant(pattern([2, 3], 7))
    show("cosine_distance", session.run(tf.losses.cosine_distance(a, b, axis=1)))


fresh(conv)
batch_norm("batch_norm 4d", [2, 3, 2, 3])
batch_norm("batch_norm 2d", [5, 3])
recurrent("lstm", lambda: tf.nn.rnn_cell.BasicLSTMCell(3))
recurrent("lstm_cell", lambda: tf.nn.rnn_cell.LSTMCell(3))
recurrent("gru", lambda: tf.nn.rnn_cell.GRUCell(3))
recurrent("rnn", lambda: tf.nn.rnn_cell.BasicRNNCell(3))
recurrent("stack", lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(3), tf.nn.rnn_cell.GRUCell(2)]))
fresh(embedding)
partitions(None)
fresh(metrics)
fresh(sampled)
fresh(losses)
