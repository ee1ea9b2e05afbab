"""Sessions: arrays in and out, bad feeds, Ctrl-C, forks, threads, and what is said when something is wrong."""

import os
import subprocess
import sys
import textwrap
import threading
import unittest

import numpy as np

import tensorfleet as tf


def run_program(text, timeout=60, **keywords):
    """Runs a program in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **keywords)


class Arrays(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_a_large_result_is_handed_over_without_a_copy(self):
        x = tf.placeholder(tf.float32, [None])
        with tf.Session() as session:
            doubled = session.run(x * 2.0, {x: np.ones(100_000, np.float32)})
        self.assertFalse(doubled.flags.owndata)
        self.assertTrue(doubled.flags.writeable)
        doubled += 1.0
        self.assertEqual(float(doubled.sum()), 300_000.0)

    def test_changing_a_fetched_variable_changes_nothing_but_the_array(self):
        v = tf.Variable(np.zeros(100_000, np.float32))
        with tf.Session() as session:
            session.run(v.initializer)
            value = session.run(v)
            value += 1.0
            self.assertEqual(float(session.run(v).sum()), 0.0)

    def test_an_array_may_change_after_the_run_that_stored_it(self):
        x = tf.placeholder(tf.float32, [100_000])
        v = tf.Variable(np.zeros(100_000, np.float32))
        r = tf.Variable(np.zeros(100_000, np.float32), use_resource=True, name="r")
        queue = tf.FIFOQueue(10, [tf.float32], [[100_000]])
        store = tf.group(tf.assign(v, x), r.assign(x, read_value=False), queue.enqueue(x), queue.enqueue_many(tf.expand_dims(x, 0)))
        taken = [queue.dequeue(), queue.dequeue()]
        with tf.Session() as session:
            array = np.ones(100_000, np.float32)
            session.run(store, {x: array})
            array[:] = 7.0
            for value in session.run([v, r]) + [session.run(taken[0]), session.run(taken[1])]:
                self.assertEqual(float(value.sum()), 100_000.0)

    def test_arrays_of_any_layout_are_fed(self):
        x = tf.placeholder(tf.float32, [None, None])
        y = tf.identity(x)
        whole = np.arange(10_000, dtype=np.float32).reshape(100, 100)
        with tf.Session() as session:
            for array in (whole, whole.T, whole[::2, ::3], np.asfortranarray(whole), whole[:0]):
                np.testing.assert_array_equal(session.run(y, {x: array}), array)

    def test_strings_and_scalars_come_back_as_numpy_has_them(self):
        with tf.Session() as session:
            self.assertEqual(session.run(tf.constant("hello")), b"hello")
            names = session.run(tf.constant([["a", "b"], ["c", "\u00e4"]]))
            self.assertEqual(names.dtype, object)
            self.assertEqual(names[1, 1], "\u00e4".encode())
            self.assertIsInstance(session.run(tf.constant(1.5)), np.float32)
            self.assertIsInstance(session.run(tf.constant(True)), np.bool_)


class BadInput(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.x = tf.placeholder(tf.float32, [None, 2], name="x")
        self.y = self.x * 2.0

    def run_with(self, feeds):
        with tf.Session() as session:
            return session.run(self.y, feeds)

    def test_feeds_that_do_not_fit(self):
        other = tf.Graph()
        with other.as_default():
            foreign = tf.placeholder(tf.float32, name="foreign")
        for feeds, kind, text in [
            ({self.x: [[1.0, 2.0, 3.0]]}, ValueError, r"Cannot feed value of shape \(1, 3\) for Tensor 'x:0', which has shape '\(\?, 2\)'"),
            ({"no_such:0": 1.0}, TypeError, "Cannot interpret feed_dict key as Tensor.*no_such"),
            ({foreign: 1.0}, TypeError, "is not an element of this graph"),
            ({self.x: self.y}, TypeError, "cannot be a tf.Tensor object"),
            ({self.x: [["a", "b"]]}, ValueError, "could not convert string to float"),
            ({self.x: [[1.0], [1.0, 2.0]]}, ValueError, ""),
            ({self.x: np.array([[object(), object()]])}, TypeError, ""),
            ({3: 1.0}, TypeError, "Can not convert a int into a Tensor"),
        ]:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                self.run_with(feeds)

    def test_fetches_that_do_not_fit(self):
        with tf.Session() as session:
            for fetch, kind, text in [
                (None, TypeError, "Fetch argument None has invalid type"),
                ("nothing", ValueError, "cannot be interpreted as a Tensor"),
                (3, TypeError, "must be a string or Tensor"),
                ([self.y, 2.0], TypeError, "must be a string or Tensor"),
            ]:
                with self.subTest(fetch), self.assertRaisesRegex(kind, text):
                    session.run(fetch)

    def test_a_missing_feed_names_the_line_that_made_the_placeholder(self):
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "You must feed a value for placeholder tensor 'x'") as caught:
            self.run_with({})
        self.assertIn("test_sessions.py", str(caught.exception))
        self.assertEqual(caught.exception.op.name, "x")

    def test_nodes_that_the_library_made_have_a_line_too(self):
        line = sys._getframe().f_lineno
        v = tf.get_variable("v", [2, 1])
        train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.matmul(self.x, v)))
        for name, made in (("v/read", line + 1), ("v/Adam/Assign", line + 2), ("Adam/update_v/ApplyAdam", line + 2)):
            self.assertEqual(tf.get_default_graph().get_operation_by_name(name).traceback[-1][:2], (__file__, made), name)
        with tf.Session() as session, self.assertRaises(tf.errors.FailedPreconditionError) as caught:
            session.run(train, {self.x: [[1.0, 2.0]]})
        self.assertIn("node v/read (defined at %s:%d)" % (__file__, line + 1), str(caught.exception))

    def test_a_closed_session_and_a_finalized_graph(self):
        session = tf.Session()
        session.close()
        with self.assertRaisesRegex(RuntimeError, "Attempted to use a closed Session."):
            session.run(self.y, {self.x: [[1.0, 2.0]]})
        tf.get_default_graph().finalize()
        with self.assertRaisesRegex(RuntimeError, "Graph is finalized and cannot be modified."):
            tf.constant(1.0)

    def test_tensors_of_two_graphs_do_not_meet(self):
        with tf.Graph().as_default():
            other = tf.constant(1.0)
        with self.assertRaisesRegex(ValueError, "must be from the same graph"):
            tf.add(self.x, other)

    def test_a_device_function_that_raises_is_heard(self):
        def choose(op):
            raise KeyError(f"no place for {op.name}")

        with self.assertRaisesRegex(KeyError, "no place for here"):
            with tf.device(choose):
                tf.constant(1.0, name="here")
        self.assertEqual(tf.constant(1.0).device, "")

    def test_a_device_function_that_builds_is_told_so(self):
        with self.assertRaisesRegex(RuntimeError, "must not use the graph"):
            with tf.device(lambda op: tf.constant(1.0).device):
                tf.constant(2.0)


class Manners(unittest.TestCase):
    def test_ctrl_c_ends_a_waiting_run_at_once(self):
        program = """
            import os, signal, threading, time
            import tensorfleet as tf
            queue = tf.FIFOQueue(1, [tf.float32])
            server = tf.train.Server.create_local_server()
            session = tf.Session({target})
            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            begin = time.time()
            try:
                session.run(queue.dequeue())
            except KeyboardInterrupt:
                print("interrupted", time.time() - begin < 3.0)
            print(session.run(tf.constant(5)))
        """
        for target in ("''", "server.target"):
            with self.subTest(target):
                done = run_program(program.replace("{target}", target))
                self.assertEqual(done.stdout.split(), ["interrupted", "True", "5"], done.stderr)

    def test_a_server_that_nobody_holds_goes_on(self):
        tf.reset_default_graph()
        with tf.Session(tf.train.Server.create_local_server().target) as session:
            self.assertEqual(session.run(tf.constant(3)), 3)

    def test_other_threads_go_on_while_a_step_runs(self):
        tf.reset_default_graph()
        queue = tf.FIFOQueue(1, [tf.int32])
        take, put = queue.dequeue(), queue.enqueue(3)
        with tf.Session() as session:
            taken = []
            thread = threading.Thread(target=lambda: taken.append(session.run(take)))
            thread.start()
            session.run(put)
            thread.join(30)
            self.assertEqual(taken, [3])

    def test_threads_build_in_scopes_of_their_own(self):
        graph = tf.Graph()
        names = {}

        def build(number):
            with graph.as_default(), tf.name_scope(f"thread_{number}"), tf.device(lambda op: f"/job:worker/task:{number}"):
                for _ in range(50):
                    names.setdefault(number, []).append((tf.constant(1.0).name, tf.constant(1.0).device))

        threads = [threading.Thread(target=build, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for number, made in names.items():
            self.assertEqual(len(made), 50)
            for name, device in made:
                self.assertTrue(name.startswith(f"thread_{number}/"), name)
                self.assertEqual(device, f"/job:worker/task:{number}")

    def test_a_fork_after_the_first_session_is_told_what_to_do(self):
        done = run_program(
            """
            import os
            import tensorfleet as tf
            x = tf.constant(2)
            pid = os.fork()          # before the first session: both go on
            session = tf.Session()
            print("first", session.run(x), flush=True)
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            pid = os.fork()
            if pid == 0:
                try:
                    session.run(x)
                except RuntimeError as error:
                    print("refused", "spawn" in str(error), flush=True)
                del session
                os._exit(0)
            os.waitpid(pid, 0)
            print("parent", session.run(x), flush=True)
            """
        )
        self.assertEqual(sorted(done.stdout.splitlines()), ["first 2", "first 2", "parent 2", "refused True"], done.stderr)

    def test_ending_with_everything_open_is_quiet(self):
        done = run_program(
            """
            import threading
            import tensorfleet as tf
            server = tf.train.Server.create_local_server()
            queue = tf.FIFOQueue(1, [tf.float32])
            take = queue.dequeue()
            session, other = tf.Session(server.target), tf.InteractiveSession()
            thread = threading.Thread(target=lambda: session.run(take), daemon=True)
            thread.start()
            other.run(tf.constant(1.0))
            print("end")
            """
        )
        self.assertEqual((done.stdout, done.returncode), ("end\n", 0), done.stderr)
        self.assertNotIn("panicked", done.stderr)

    def test_importing_loads_little(self):
        done = run_program("import sys, tensorfleet; print(len([m for m in sys.modules if m.startswith('tensorfleet')]))", env={**os.environ, "TENSORFLEET_DEV": ""})
        self.assertLess(int(done.stdout), 12, done.stderr)


class PartialRuns(unittest.TestCase):
    def test_a_run_in_parts(self):
        tf.reset_default_graph()
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        first, second = a * 2.0, None
        second = first + b
        with tf.Session() as session:
            handle = session.partial_run_setup([first, second], [a, b])
            self.assertEqual(session.partial_run(handle, first, {a: 3.0}), 6.0)
            self.assertEqual(session.partial_run(handle, second, {b: 1.0}), 7.0)

    def test_callables(self):
        tf.reset_default_graph()
        x = tf.placeholder(tf.float32, [])
        with tf.Session() as session:
            double = session.make_callable({"y": x * 2.0}, [x])
            self.assertEqual(double(4.0), {"y": 8.0})
            with self.assertRaisesRegex(TypeError, "feed_list"):
                session.make_callable(x, 3)


if __name__ == "__main__":
    unittest.main()
