"""slim.learning.train with a supervisor, and slim.evaluation.evaluate_once of its checkpoint."""

import os

import numpy as np

DIFFERENCES = {"*": "compared by what is trained and saved: loop, supervisor and summaries build nodes of their own"}


def program(tf, check):
    slim = tf.contrib.slim
    directory = os.path.join(os.environ["DIFFERENTIAL_DIRECTORY"], "log")
    rng = np.random.RandomState(1)
    inputs = tf.constant(rng.randn(8, 3).astype(np.float32))
    targets = tf.matmul(inputs, [[1.0], [2.0], [-1.0]])

    def model():
        with slim.arg_scope([slim.fully_connected], weights_initializer=tf.constant_initializer(0.1), activation_fn=None):
            return slim.fully_connected(inputs, 1, scope="layer")

    predictions = model()
    loss = tf.losses.mean_squared_error(targets, predictions)
    train = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1))
    tf.summary.scalar("loss", loss)
    last = slim.learning.train(train, directory, number_of_steps=20, log_every_n_steps=0, save_summaries_secs=600)
    check("last loss", last)
    path = tf.train.latest_checkpoint(directory)
    check("checkpoint", os.path.basename(path))
    check("keys", [name for name, _ in tf.train.list_variables(path)])
    check("weights", tf.train.load_variable(path, "layer/weights"))
    with tf.Graph().as_default():
        inputs = tf.constant(rng.randn(8, 3).astype(np.float32))
        targets = tf.matmul(inputs, [[1.0], [2.0], [-1.0]])
        tf.train.get_or_create_global_step()
        values, updates = slim.metrics.aggregate_metric_map({"error": slim.metrics.streaming_mean_squared_error(model(), targets)})
        result = slim.evaluation.evaluate_once("", path, os.path.join(directory, "evaluation"), num_evals=3, eval_op=list(updates.values()), final_op=values["error"])
        check("evaluated", result)
