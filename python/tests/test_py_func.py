"""`tf.py_func` and generators: threads, sessions inside functions, errors, in-process servers, the interpreter's end."""

import os
import subprocess
import sys
import threading
import time
import unittest

import tensorfleet as tf

AT_THE_END = """
import threading, time
import tensorfleet as tf
slow = tf.py_func(lambda: (time.sleep(2), 1.0)[1], [], tf.float64)
session = tf.Session()
threading.Thread(target=lambda: session.run(slow), daemon=True).start()
time.sleep(0.3)
print("end")
"""


class PyFuncTest(unittest.TestCase):
    def setUp(self):
        self.graph = tf.Graph()
        self.entered = self.graph.as_default()
        self.entered.__enter__()

    def tearDown(self):
        self.entered.__exit__(None, None, None)

    def test_functions_run_at_the_same_time_and_use_sessions(self):
        inner = tf.Graph()
        with inner.as_default():
            given = tf.placeholder(tf.float32, [])
            doubled = given * 2.0
        inner_session = tf.Session(graph=inner)
        x = tf.placeholder(tf.float32, [])

        def nested(value):
            time.sleep(0.02)
            return inner_session.run(doubled, {given: value})

        total = tf.add_n([tf.py_func(nested, [x + float(index)], tf.float32) for index in range(10)])
        server = tf.train.Server.create_local_server()
        for target in ("", server.target):
            with tf.Session(target) as session:
                results = []
                threads = [threading.Thread(target=lambda: results.append(session.run(total, {x: 1.0}))) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(results, [110.0] * 4)

    def test_errors_keep_their_kind_and_traceback(self):
        def fails(error):
            def the_function_that_fails():
                raise error

            return tf.py_func(the_function_that_fails, [], tf.float32)

        cases = (
            (ValueError("bad"), tf.errors.InvalidArgumentError),
            (NotImplementedError("not yet"), tf.errors.UnimplementedError),
            (KeyError("key"), tf.errors.UnknownError),
            (tf.errors.AlreadyExistsError(None, None, "there"), tf.errors.AlreadyExistsError),
        )
        with tf.Session() as session:
            for error, kind in cases:
                with self.assertRaises(kind) as raised:
                    session.run(fails(error))
                self.assertIn("the_function_that_fails", raised.exception.message)

    def test_a_generator_that_is_left_half_way_is_ended(self):
        ended = threading.Event()

        def numbers():
            try:
                for number in range(1000):
                    yield number
            finally:
                ended.set()

        iterator = tf.data.Dataset.from_generator(numbers, tf.int32, []).take(2).make_initializable_iterator()
        following = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer)
            self.assertEqual([session.run(following) for _ in range(2)], [0, 1])
            with self.assertRaises(tf.errors.OutOfRangeError):
                session.run(following)
            session.run(iterator.initializer)
        self.assertTrue(ended.wait(5))

    def test_a_function_that_runs_when_the_interpreter_ends(self):
        done = subprocess.run([sys.executable, "-c", AT_THE_END], env=os.environ, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))


if __name__ == "__main__":
    unittest.main()
