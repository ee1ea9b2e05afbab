"""Gradients and strategies that programs define, while other threads build, and when they fail."""

import threading
import time
import unittest

import numpy as np

import tensorfleet as tf


@tf.RegisterGradient("TestSlowSquare")
def _slow_square(op, grad):
    with tf.name_scope("slow"):
        time.sleep(0.05)
        return grad * op.inputs[0] * 2.0


@tf.RegisterGradient("TestNested")
def _nested(op, grad):
    # Differentiates inside of a differentiation.
    y = tf.exp(op.inputs[0])
    return grad * tf.gradients(y, op.inputs[0])[0]


class GradientsOfProgramsTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_other_threads_build_meanwhile(self):
        graph = tf.get_default_graph()
        with graph.gradient_override_map({"Square": "TestSlowSquare"}):
            x = tf.constant(3.0)
            y = tf.square(x)
        grads, made = [], []

        def differentiate():
            with graph.as_default():
                grads.append(tf.gradients(y, x)[0])

        def build():
            with graph.as_default(), tf.name_scope("other"):
                for count in range(50):
                    with tf.control_dependencies(made[-1:]):
                        made.append(tf.constant(1.0))
                    if count % 10 == 0:
                        # Variables, seeds and counts ask the graph, too.
                        made.append(tf.Variable(tf.random_normal([2]), name="variable").initializer)
                        self.assertGreater(len(graph.get_operations()), count)

        threads = [threading.Thread(target=target, daemon=True) for target in (differentiate, build, differentiate)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertFalse(any(thread.is_alive() for thread in threads))
        self.assertTrue(all(tensor.name.startswith("other") for tensor in made))
        self.assertTrue(all("Square_grad/slow" in grad.name for grad in grads))
        with tf.Session() as session:
            self.assertEqual(session.run(grads), [6.0, 6.0])

    def test_gradients_inside_gradients(self):
        with tf.get_default_graph().gradient_override_map({"Sin": "TestNested"}):
            x = tf.constant([0.0, 1.0])
            y = tf.sin(x)
        with tf.Session() as session:
            np.testing.assert_allclose(session.run(tf.gradients(y, x)[0]), np.exp([0.0, 1.0]), rtol=1e-5)

    def test_the_graph_is_whole_after_an_error(self):
        @tf.RegisterGradient("TestFails")
        def _fails(op, grad):
            tf.constant(1.0, name="before")
            with tf.name_scope("never_left"), tf.control_dependencies([op]):
                raise KeyError("on purpose")

        with tf.get_default_graph().gradient_override_map({"Sin": "TestFails"}):
            x = tf.constant(1.0)
            y = tf.sin(x)
        with self.assertRaisesRegex(KeyError, "on purpose"):
            tf.gradients(y, x)
        after = tf.constant(2.0, name="after")
        self.assertEqual(after.name, "after:0")
        self.assertEqual(after.op.control_inputs, [])
        self.assertEqual(tf.gradients(tf.cos(x), x)[0].shape, [])

    def test_slices_and_integers(self):
        @tf.RegisterGradient("TestRows")
        def _rows(op, grad, *_):
            return [tf.IndexedSlices(grad, op.inputs[1]), None, None]

        table = tf.Variable([[1.0], [2.0], [3.0]])
        with tf.get_default_graph().gradient_override_map({"GatherV2": "TestRows"}):
            rows = tf.gather(table, [2, 0])
        grad = tf.gradients(rows * rows, table)[0]
        self.assertIsInstance(grad, tf.IndexedSlices)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = session.run(grad)
            self.assertEqual(found.values.tolist(), [[6.0], [2.0]])
            self.assertEqual(found.dense_shape.tolist(), [3, 1])

    def test_a_strategy_must_not_use_the_graph(self):
        def strategy(op):
            tf.constant(1.0)
            return 0

        with self.assertRaisesRegex(RuntimeError, "must not use the graph"):
            with tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_strategy=strategy)):
                tf.Variable(1.0)

    def test_optimizers_of_two_graphs(self):
        optimizer = tf.train.AdamOptimizer(0.1)
        for _ in range(2):
            with tf.Graph().as_default():
                x = tf.Variable(1.0, name="x")
                train = optimizer.minimize(x * x)
                self.assertEqual([var.name for var in optimizer.variables()], ["beta1_power:0", "beta2_power:0", "x/Adam:0", "x/Adam_1:0"])
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    session.run(train)
                    self.assertAlmostEqual(session.run(x), 0.9, places=5)


if __name__ == "__main__":
    unittest.main()
