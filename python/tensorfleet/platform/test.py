"""`tf.test`: test cases with sessions, numeric gradients, small clusters in this process."""

import contextlib
import os
import random
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

from tensorfleet.framework.export import export, export_values

from .test_assertions import Assertions

export_values(__name__, {"test.mock": "mock"})
_folder = None


@export("test.main")
def main(argv=None):
    """Runs all test cases of the program."""
    from . import flags

    flags.FLAGS(sys.argv if argv is None else list(argv), known_only=True)
    unittest.main(argv=[sys.argv[0]] + [argument for argument in (sys.argv if argv is None else list(argv))[1:] if argument.partition("=")[0].lstrip("-") not in flags.FLAGS])


@export("test.get_temp_dir")
def get_temp_dir():
    """A folder for the files of this program's tests, deleted when it ends."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix=os.path.basename(sys.argv[0] or "test"))
    return _folder.name


@export("test.test_src_dir_path")
def test_src_dir_path(relative_path):
    """A path below the folder where the program is."""
    return os.path.join(os.environ.get("TEST_SRCDIR", os.path.dirname(os.path.abspath(sys.argv[0]))), "org_tensorflow/tensorflow", relative_path)


test_src_dir_path.__test__ = False


@export("test.is_built_with_cuda")
def is_built_with_cuda():
    """False: everything runs on the CPU."""
    return False


@export("test.is_built_with_rocm")
def is_built_with_rocm():
    """False: everything runs on the CPU."""
    return False


@export("test.is_built_with_gpu_support")
def is_built_with_gpu_support():
    """False: everything runs on the CPU."""
    return False


@export("test.is_gpu_available")
def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """False: everything runs on the CPU."""
    return False


@export("test.gpu_device_name")
def gpu_device_name():
    """The empty string: there is no GPU."""
    return ""


@export("test.benchmark_config")
def benchmark_config():
    """The settings that benchmarks run with."""
    from tensorfleet import protobuf

    config = protobuf.ConfigProto()
    config.graph_options.rewrite_options.dependency_optimization = protobuf.RewriterConfig.OFF
    return config


@export("test.assert_equal_graph_def")
def assert_equal_graph_def(actual, expected, checkpoint_v2=False, hash_table_shared_name=False):
    """Raises unless two graphs have the same nodes, in any order."""
    from tensorfleet import protobuf

    for graph in (actual, expected):
        if not isinstance(graph, protobuf.GraphDef):
            raise TypeError("Expected tf.GraphDef for %s, got %s" % ("actual" if graph is actual else "expected", type(graph).__name__))
    ours, theirs = ({node.name: node for node in graph.node} for graph in (actual, expected))
    if set(ours) != set(theirs):
        raise AssertionError("Nodes only in actual: %s; only in expected: %s" % (sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))))
    for name in sorted(ours):
        if ours[name] != theirs[name]:
            raise AssertionError("Node %s differs.\nactual:\n%s\nexpected:\n%s" % (name, ours[name], theirs[name]))


@export("test.create_local_cluster")
def create_local_cluster(num_workers, num_ps, protocol="grpc", worker_config=None, ps_config=None):
    """Servers of a cluster in this process, on free ports: lists of workers and of parameter servers."""
    import socket

    import tensorfleet as tf

    sockets = []
    for _ in range(num_workers + num_ps):
        taken = socket.socket()
        taken.bind(("localhost", 0))
        sockets.append(taken)
    addresses = ["localhost:%d" % taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    cluster = tf.train.ClusterSpec({"worker": addresses[:num_workers], "ps": addresses[num_workers:]})
    workers = [tf.train.Server(cluster, job_name="worker", protocol=protocol, task_index=task, config=worker_config, start=True) for task in range(num_workers)]
    return workers, [tf.train.Server(cluster, job_name="ps", protocol=protocol, task_index=task, config=ps_config, start=True) for task in range(num_ps)]


@export("test.StubOutForTesting")
class StubOutForTesting:
    """Replaces attributes for the time of a test."""

    def __init__(self):
        self._replaced = []

    def Set(self, parent, child_name, new_child):
        """Replaces an attribute until `UnsetAll`."""
        old = parent.__dict__.get(child_name, getattr(parent, child_name)) if hasattr(parent, "__dict__") else getattr(parent, child_name)
        self._replaced.append((parent, old, child_name))
        setattr(parent, child_name, new_child)

    def SmartSet(self, obj, attr_name, new_attr):
        """Replaces an attribute until `SmartUnsetAll`."""
        if not hasattr(obj, attr_name):
            raise AttributeError("Attribute not found.")
        self.Set(obj, attr_name, new_attr)

    def UnsetAll(self):
        """Puts everything back, the last replaced first."""
        while self._replaced:
            parent, old, name = self._replaced.pop()
            setattr(parent, name, old)

    SmartUnsetAll = CleanUp = UnsetAll

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.UnsetAll()


class _CheckedThread:
    """A thread whose exception fails the test that joins it."""

    def __init__(self, testcase, target, args=None, kwargs=None):
        self._testcase, self._target, self._args, self._kwargs = testcase, target, args or (), kwargs or {}
        self._thread, self._error = threading.Thread(target=self._run), None

    def _run(self):
        try:
            self._target(*self._args, **self._kwargs)
        except Exception as error:
            self._error = error

    def start(self):
        self._thread.start()

    def join(self):
        self._thread.join()
        if self._error is not None:
            self._testcase.fail("Error in checkedThread: %s" % self._error)

    def is_alive(self):
        return self._thread.is_alive()

    def check_termination(self):
        if self.is_alive():
            self._testcase.fail("Checked thread was not joined.")


@export("test.TestCase")
class TestCase(Assertions):
    """A test case whose default graph is fresh, with sessions and assertions about arrays."""

    def __init__(self, methodName="runTest"):
        super().__init__(methodName)
        self._cached, self._threads, self._tempdir = None, [], None

    def setUp(self):
        import tensorfleet as tf

        random.seed(87654321)
        np.random.seed(87654321)
        tf.reset_default_graph()
        tf.set_random_seed(87654321)
        self._threads = []

    def tearDown(self):
        for thread in self._threads:
            thread.check_termination()
        if self._cached is not None:
            self._cached[0].close()
            self._cached = None

    def get_temp_dir(self):
        """A folder of this test alone."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=get_temp_dir())
        return self._tempdir

    def evaluate(self, tensors):
        """The values of tensors, in the session of the moment."""
        import tensorfleet as tf

        session = tf.get_default_session() or (self._cached[0] if self._cached is not None else None)
        if session is not None:
            return session.run(tensors)
        with self.test_session() as session:
            return session.run(tensors)

    def _new_session(self, graph, config):
        import tensorfleet as tf

        if config is None:
            config = tf.ConfigProto(allow_soft_placement=True)
        return tf.Session(graph=graph, config=config)

    @contextlib.contextmanager
    def session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """A new session for the block, with its graph as the default."""
        with self._new_session(graph, config) as session:
            yield session

    @contextlib.contextmanager
    def cached_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """A session that lives as long as the test; the same one every time."""
        if self._cached is None:
            self._cached = (self._new_session(graph, config), graph)
        elif graph is not None and self._cached[1] is not graph:
            raise ValueError("The graph used to get the cached session is different than the one that was used to create the session.")
        with self._cached[0].graph.as_default(), self._cached[0].as_default():
            yield self._cached[0]

    def test_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """`cached_session` without a graph, `session` with one."""
        if self.id().endswith(".test_session"):
            # Its name makes test runners take it for a test.
            self.skipTest("Not a test.")
        context = self.cached_session if graph is None else self.session
        return context(graph, config, use_gpu, force_gpu)

    def checkedThread(self, target, args=None, kwargs=None):
        """A thread that fails this test if it raises or is not joined."""
        thread = _CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    @contextlib.contextmanager
    def captureWritesToStream(self, stream):
        """Collects what is written to a stream with a file descriptor, C code included."""
        descriptor = stream.fileno()
        with tempfile.TemporaryFile() as file:
            stream.flush()
            kept = os.dup(descriptor)
            os.dup2(file.fileno(), descriptor)
            captured = _Captured()
            try:
                yield captured
            finally:
                stream.flush()
                os.dup2(kept, descriptor)
                os.close(kept)
                file.seek(0)
                captured.text = file.read().decode()


class _Captured:
    text = ""

    def contents(self):
        return self.text


@export("test.Benchmark")
class Benchmark:
    """A base for benchmarks: methods whose names begin with `benchmark`."""

    def __init__(self):
        self.results = []

    @classmethod
    def is_abstract(cls):
        return len(cls.mro()) <= 2

    def evaluate(self, tensors):
        """The values of tensors, in the default session."""
        import tensorfleet as tf

        session = tf.get_default_session() or tf.Session(config=benchmark_config())
        return session.run(tensors)

    def report_benchmark(self, iters=None, cpu_time=None, wall_time=None, throughput=None, extras=None, name=None, metrics=None):
        """Keeps and prints a result."""
        if name is None:
            name = "%s.%s" % (type(self).__name__, sys._getframe(1).f_code.co_name)
        result = {"name": name, "iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput, "extras": extras, "metrics": metrics}
        self.results.append(result)
        print("entry {\n%s}" % "".join("  %s: %r\n" % item for item in result.items() if item[1] is not None))

    def run_op_benchmark(self, sess, op_or_tensor, feed_dict=None, burn_iters=2, min_iters=10, store_trace=False, store_memory_usage=True, name=None,
                         extras=None, mbs=0):
        """Runs an op several times, reports the median time, and returns it in a dictionary."""
        import time

        fetches = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(fetches, feed_dict=feed_dict)
        times = np.zeros(min_iters)
        for place in range(min_iters):
            begin = time.perf_counter()
            sess.run(fetches, feed_dict=feed_dict)
            times[place] = time.perf_counter() - begin
        median = float(np.median(times))
        throughput = mbs / median if mbs and median else None
        self.report_benchmark(iters=min_iters, wall_time=median, throughput=throughput, extras=extras, name=name or type(self).__name__)
        return {"iters": min_iters, "wall_time": median, "throughput": throughput, "extras": extras or {}, "name": name or type(self).__name__}
