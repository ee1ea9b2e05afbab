"""A training that is killed half-way and continued, maybe by another TensorFlow; see `test_resume.py`.

    resumed_program.py DIRECTORY LAST_STEP [PAUSE]

Trains twice, with a Supervisor and with a MonitoredTrainingSession. Every step prints its loss, the end prints all
variables. At the step PAUSE it stops, still open, and waits to be killed.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf


def batch(step):
    """What is fed in a step depends on the step alone, so that a training that goes on sees what it would have seen."""
    random = np.random.RandomState(step)
    x = random.randn(16, 6).astype(np.float32)
    return x, random.randint(0, 10, [16, 2]), np.sum(x[:, :2], axis=1, keepdims=True)


class Model:
    """A dense layer, an embedding with sparse gradients, Adam with a decaying rate, and averages."""

    def __init__(self):
        values = np.random.RandomState(7)
        self.step = tf.train.get_or_create_global_step()
        self.x = tf.placeholder(tf.float32, [None, 6])
        self.ids = tf.placeholder(tf.int64, [None, 2])
        self.y = tf.placeholder(tf.float32, [None, 1])
        table = tf.get_variable("table", initializer=values.randn(10, 4).astype(np.float32))
        words = tf.reshape(tf.nn.embedding_lookup(table, self.ids), [-1, 8])
        hidden = tf.layers.dense(tf.concat([self.x, words], 1), 5, tf.nn.tanh, name="hidden",
                                 kernel_initializer=tf.constant_initializer(values.randn(14, 5) * 0.3))
        output = tf.layers.dense(hidden, 1, name="output", kernel_initializer=tf.constant_initializer(values.randn(5, 1)))
        self.loss = tf.losses.mean_squared_error(self.y, output)
        rate = tf.train.exponential_decay(0.05, self.step, 10, 0.9)
        update = tf.train.AdamOptimizer(rate).minimize(self.loss, global_step=self.step)
        with tf.control_dependencies([update]):
            self.train = tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())
        # Before the session closes the graph.
        self.variables = {v.op.name: tf.identity(v) for v in tf.global_variables()}

    def run(self, session, kind, step):
        """Makes the step after `step`."""
        x, ids, y = batch(step)
        loss = session.run([self.loss, self.train], {self.x: x, self.ids: ids, self.y: y})[0]
        print(json.dumps([kind, step + 1, float(loss)]))

    def report(self, session, kind):
        x, ids, y = batch(0)
        values = session.run(self.variables, {self.x: x, self.ids: ids, self.y: y})
        print(json.dumps([kind, "variables", {name: np.asarray(value).tolist() for name, value in values.items()}]))


def supervised(directory, last_step, pause):
    """Saves when it says so; yields where it pauses."""
    with tf.Graph().as_default():
        model = Model()
        server = tf.train.Server.create_local_server()
        supervisor = tf.train.Supervisor(logdir=directory, global_step=model.step, save_model_secs=0, summary_op=None)
        with supervisor.managed_session(server.target) as session:
            for step in range(session.run(model.step), last_step):
                if step == pause:
                    yield
                model.run(session, "supervised", step)
                if step % 5 == 4:
                    supervisor.saver.save(session, supervisor.save_path, global_step=model.step)
            model.report(session, "supervised")


def monitored(directory, last_step, pause):
    """Is saved by a hook every five steps."""
    with tf.Graph().as_default():
        model = Model()
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=directory, save_checkpoint_steps=5, save_checkpoint_secs=None, save_summaries_steps=0,
                save_summaries_secs=None, log_step_count_steps=0) as session:
            for step in range(session.run_step_fn(lambda step_context: step_context.session.run(model.step)), last_step):
                if step == pause:
                    yield
                model.run(session, "monitored", step)
            session.run_step_fn(lambda step_context: model.report(step_context.session, "monitored"))


def main():
    directory, last_step = sys.argv[1], int(sys.argv[2])
    pause = int(sys.argv[3]) if len(sys.argv) > 3 else None
    # Both stay open until the process is killed.
    trainings = [kind(os.path.join(directory, kind.__name__), last_step, pause) for kind in (supervised, monitored)]
    for training in trainings:
        for _ in training:
            break
    print("PAUSED" if pause else "DONE")
    sys.stdout.flush()
    if pause:
        sys.stdin.readline()


if __name__ == "__main__":
    main()
