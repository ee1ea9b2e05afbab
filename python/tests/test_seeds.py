"""The seeds in `examples/python`, as processes: what they print, what they learn, what they survive.

Servers are the scripts' own (`tf.train.Server` in each process), those of `tensorfleet serve`, or TensorFlow's.
"""

import os
import re
import sys
import tempfile
import unittest

from processes import EXAMPLES, Cluster, Program, TensorFlow, command, script

import tensorfleet as tf

KINDS = ("python", "serve", "tensorflow 1", "tensorflow 2")


def example(name):
    return os.path.join(EXAMPLES, name + ".py")


def number_after(line, before):
    """The number that follows `before` in a line."""
    found = re.search(re.escape(before) + r"(-?[0-9.]+(?:e-?[0-9]+)?)", line)
    return float(found.group(1)) if found else None


def for_each(*kinds):
    """Makes a test of its own for each kind of servers."""

    def decorate(method):
        method.kinds = kinds
        return method

    return decorate


class PerKind(type):
    def __new__(mcs, name, bases, attributes):
        for key, method in list(attributes.items()):
            for kind in getattr(method, "kinds", ()):
                attributes["%s_with_%s" % (key, kind.replace(" ", "_"))] = lambda self, method=method, kind=kind: method(self, kind)
            if hasattr(method, "kinds"):
                del attributes[key]
        return super().__new__(mcs, name, bases, attributes)


class Seeds(unittest.TestCase, metaclass=PerKind):
    def last_number(self, lines, before):
        numbers = [number_after(line, before) for line in lines]
        numbers = [number for number in numbers if number is not None]
        self.assertTrue(numbers, "no line has a number after %r:\n%s" % (before, "\n".join(lines)))
        return numbers[-1]

    def directory(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return directory.name

    def test_hello_comes_from_a_local_server(self):
        self.assertEqual(script(self, example("hello")).lines(), ["Hello, distributed TensorFlow!"])

    @for_each(*KINDS)
    def test_003_five_servers_compute_4_and_place_six_nodes(self, kind):
        cluster = Cluster(self, 2, 3, kind)
        flags = ["--address=" + ",".join(cluster.ps + cluster.workers)]
        if kind != "python":
            cluster.serve_all()
            flags.append("--existing_servers")
        lines = script(self, example("five_servers"), *flags).lines()
        self.assertEqual(lines[0], "4.0")
        self.assertEqual(lines[-1], "6.0 9.0 3.0")
        # The master says where nodes are.
        if kind == "serve":
            lines = cluster.servers[0].said()
        elif kind != "python":
            lines = TensorFlow.of(kind).log().splitlines()
        for node, task in (
            ("v1: (VariableV2)", "ps/replica:0/task:0"), ("v2: (VariableV2)", "ps/replica:0/task:1"),
            ("v3: (VariableV2)", "ps/replica:0/task:0"), ("add: (AddV2)", "worker/replica:0/task:0"),
            ("mul: (Mul)", "worker/replica:0/task:1"), ("mul_1: (Mul)", "worker/replica:0/task:1"),
        ):
            self.assertTrue(any("%s: /job:%s/device:CPU:0" % (node, task) in line for line in lines), (node, lines))

    @for_each(*KINDS)
    def test_000_a_chief_that_was_killed_goes_on_at_the_step_that_was_saved(self, kind):
        logdir = self.directory()
        cluster = Cluster(self, 1, 1, kind)
        path, flags = example("linear_regression"), ["--logdir=" + logdir]
        servers = cluster.parameter_servers(path)
        if servers:
            self.assertEqual(servers[0].next_line(), "Wait")
        chief = cluster.task(path, "worker", 0, *flags, "--training_epochs=1000000", "--save_model_secs=1")
        self.assertEqual(chief.next_line(), "0")
        # A few passes, until something of them was saved.
        epoch = chief.wait_for(lambda line: self.saved_step(logdir) > 0 and number_after(line, "Epoch: "))
        chief.kill()
        saved = self.saved_step(logdir)
        self.assertGreater(saved, 0)

        if kind == "python":
            # All is lost but what was saved.
            servers[0].kill()
            cluster = Cluster(self, 1, 1, kind)
            cluster.parameter_servers(path)
        chief = cluster.task(path, "worker", 0, *flags, "--training_epochs=%d" % (epoch + 10), "--save_model_secs=600")
        first = int(chief.next_line())
        if kind == "python":
            self.assertEqual(first, saved)
        else:
            # The parameter server still has the model, which may be newer than what was saved.
            self.assertGreaterEqual(first, saved)
        lines = chief.lines()
        self.assertEqual(lines[-1], "Finished")
        self.assertAlmostEqual(self.last_number(lines, "W= "), 2.0, delta=0.15)
        newest = tf.train.latest_checkpoint(logdir)
        self.assertEqual(os.path.basename(newest).split("-")[0], "sv.cpk")
        self.assertGreaterEqual(self.saved_step(logdir), (epoch + 10) * 100)

    def saved_step(self, logdir):
        """The global step of the newest checkpoint; 0 if there is none."""
        try:
            return int(tf.train.load_variable(logdir, "global_step"))
        except (tf.errors.OpError, ValueError):
            # It may have been replaced by a newer one a moment ago.
            return 0

    @for_each(*KINDS)
    def test_001_both_nodes_report_a_line_that_comes_close(self, kind):
        cluster = Cluster(self, 1, 2, kind)
        path, flags = example("partial_results"), ["--logdir=" + self.directory(), "--rounds=1", "--passes=15"]
        cluster.parameter_servers(path)
        # The chief comes last: the other waits for it. The seed writes its task with one dash.
        workers = [(1, cluster.task(path, "worker", 1, *flags))]
        workers.append((0, script(self, path, *cluster.hosts, *flags, "--job_name=worker", "-task_index=0")))
        for index, worker in workers:
            lines = worker.lines()
            self.assertEqual(len(lines), 15)
            for line in lines:
                self.assertTrue(line.startswith("Partial result from node: %d, w: " % index), line)
            # The noise of the points is another one in each run.
            self.assertAlmostEqual(self.last_number(lines, "w: "), 2.0, delta=0.3)
            self.assertAlmostEqual(self.last_number(lines, "b0: "), 0.2, delta=0.3)

    @for_each(*KINDS)
    def test_002_a_trainer_stops_at_its_last_step(self, kind):
        cluster = Cluster(self, 2, 2, kind)
        directory = self.directory()
        path, flags = example("trainer"), ["--checkpoint_dir=" + directory, "--last_step=300"]
        cluster.parameter_servers(path)
        workers = [cluster.task(path, "worker", index, *flags) for index in (0, 1)]
        for index, worker in enumerate(workers):
            lines = worker.lines()
            # The step is read while the last update is made.
            self.assertIn(self.last_number(lines, "Worker %d: stopped at global step " % index), (299, 300, 301))
        newest = tf.train.latest_checkpoint(directory)
        self.assertIn(os.path.basename(newest), ("model.ckpt-300", "model.ckpt-301"))
        names = dict(tf.train.list_variables(newest))
        self.assertEqual(names["weights_1"], [4, 8])
        self.assertIn("weights_2/Adagrad", names)

    def test_002_a_trainer_goes_on_after_a_parameter_server_was_lost(self):
        cluster = Cluster(self, 2, 2)
        directory = self.directory()
        path, flags = example("trainer"), ["--checkpoint_dir=" + directory, "--last_step=3000", "--save_checkpoint_secs=0.2"]
        servers = cluster.parameter_servers(path)
        workers = [cluster.task(path, "worker", index, *flags) for index in (0, 1)]
        workers[0].wait_until(lambda: self.saved_step(directory) > 100)
        servers[1].kill()
        cluster.task(path, "ps", 1)
        for index, worker in enumerate(workers):
            step = self.last_number(worker.lines(), "Worker %d: stopped at global step " % index)
            self.assertIn(step, (2999, 3000, 3001))
        self.assertIn(self.saved_step(directory), (3000, 3001))

    def digits_are_learned(self, kind, steps, *flags):
        """Runs seed 004 to its end, and checks what both workers say."""
        cluster = Cluster(self, 1, 2, kind)
        path, flags = example("mnist_replica"), ["--train_steps=%d" % steps, *flags]
        if kind == "python":
            cluster.parameter_servers(path)
        else:
            cluster.serve_all()
            flags.append("--existing_servers")
        workers = [(index, cluster.task(path, "worker", index, *flags)) for index in (1, 0)]
        for index, worker in workers:
            lines = worker.lines()
            begin = "Initializing session..." if index == 0 else "Waiting for session to be initialized..."
            for line in ("job name = worker", "task index = %d" % index, "Worker %d: %s" % (index, begin),
                         "Worker %d: Session initialization complete." % index):
                self.assertIn(line, lines)
            starts_rounds = "Starting chief queue runner and running init_tokens_op" in lines
            self.assertEqual(starts_rounds, index == 0 and "--sync_replicas=True" in flags)
            for prefix in ("Training begins @ ", "Training ends @ ", "Training elapsed time: "):
                self.last_number(lines, prefix)
            self.assertTrue(any("Worker %d: training step 1 done (global step: " % index in line for line in lines))
            self.assertGreaterEqual(self.last_number(lines, "done (global step: "), steps)
            after = "After %d training step(s), " % steps
            self.last_number(lines, after + "validation cross entropy = ")
            self.assertGreaterEqual(self.last_number(lines, after + "test accuracy = "), 0.95)

    @for_each(*KINDS)
    def test_004_digits_are_learned_asynchronously(self, kind):
        self.digits_are_learned(kind, 3000, "--learning_rate=0.005")

    @for_each(*KINDS)
    def test_004_digits_are_learned_synchronously(self, kind):
        self.digits_are_learned(kind, 1000, "--learning_rate=0.005", "--sync_replicas=True")

    def test_launch_starts_a_script(self):
        arguments = [command(), "launch", "--ps", "1", "--workers", "2", "--", example("mnist_replica"), "--train_steps=60"]
        environment = {"VIRTUAL_ENV": "", "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
        lines = Program(self, arguments, **environment).lines()
        for line in ("worker/0 │ Worker 0: Session initialization complete.", "worker/1 │ task index = 1", "ps/0 │ job name = ps"):
            self.assertIn(line, [re.sub(" +", " ", line) for line in lines])
        self.assertTrue(any("After 60 training step(s), validation cross entropy = " in line for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
