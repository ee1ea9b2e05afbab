"""What users bring after the tutorials, once on TensorFlow and once on the cluster: the values must be the same.

The programs are those of `tier2_programs.py`. Each runs as it is, with variables on the parameter servers and the rest on
a worker; only the target of its sessions is another. All initial values and random numbers have fixed seeds. Compared is what
each run returns, and after it every variable that has a value: most programs fetch nothing but their training op.
"""

import contextlib
import functools
import socket

import numpy as np

import checks
import cluster as cluster_flags
import tier2_programs
from compat import IS_TF1, tf

# These fetch a variable together with what updates it, or several updates of one variable: TensorFlow leaves open which value
# they see. Each of their fetches is a run of its own, in the order in which they stand.
_ONE_BY_ONE = {"opt_moving_average", "embedding_single", "embedding_partitioned_mod", "embedding_partitioned_div", "word2vec_nce",
               "while_and_cond", "metrics"}

# Within one op that these fetch, TensorFlow leaves open whether a variable is read before or after its update. The variables
# (by parts of their names) that show which it was are not compared; two runs of TensorFlow differ in them.
_OPEN_VARIABLES = {
    # The network in use reads the moving statistics that the same step updates.
    "batch_norm": ["Variable:0", "Variable_1:0"],
    # The averages are grouped with the updates of what they average.
    "cifar10_multi_tower": ["ExponentialMovingAverage"],
}

# What these compute, or the graph that the Python library builds for them, depends on where variables are. TensorFlow runs
# them on a cluster of its own, in this process; it runs the others in an ordinary session.
_PLACED = {
    # With reference variables elsewhere, the averages are those of values that were sent before the update.
    "opt_moving_average",
    # With the table elsewhere, each id is looked up once, and rows of gradients come in another order.
    "sparse_tensors",
}

# These build a graph and run nothing. Here every value in it that nobody uses is run, with this for its placeholders.
_BUILD_ONLY = {
    "array_and_math_odds_and_ends": [np.array([[0.5, -1.5, 2.0, 3.25], [0.25, 0.75, -0.5, 1.0], [4.0, 0.125, 1.5, -2.5]]), [2, 0, 1]],
    "sparse_tensors": [[[0, 0], [0, 2], [1, 3]], [4, 9, 0], [2, 4]],
    "wide_and_deep_feature_columns": [[b"x", b"y"], [b"b", b"z"], [[1.0, 2.0], [3.0, 4.0]], [30.0, 50.0]],
}


class _Recorder:
    """Sends the sessions of a program to a target, and keeps what they return."""

    def __init__(self, target, name):
        self.target = target
        self.one_by_one = name in _ONE_BY_ONE
        self.open_variables = _OPEN_VARIABLES.get(name, [])
        self.values = []

    def record(self, session, run, values):
        self.values.append(values)
        collections = tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES
        variables = {}
        for variable in sum((session.graph.get_collection(name) for name in collections), []):
            if any(part in variable.name for part in self.open_variables):
                continue
            with contextlib.suppress(tf.errors.FailedPreconditionError):
                variables[variable.name] = run(variable)
        self.values.append(variables)

    @contextlib.contextmanager
    def installed(self):
        recorder, session, monitored = self, tf.Session, tf.train.MonitoredTrainingSession

        class RecordedSession(session):
            def __init__(self, target="", graph=None, config=None):
                config = config or tf.ConfigProto()
                config.allow_soft_placement = True
                super().__init__(recorder.target, graph, config)

            def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
                if recorder.one_by_one and isinstance(fetches, list):
                    return [self.run(fetch, feed_dict, options, run_metadata) for fetch in fetches]
                options = options or tf.RunOptions(timeout_in_ms=60000)
                values = super().run(fetches, feed_dict, options, run_metadata)
                recorder.record(self, super().run, values)
                return values

        class Record(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                recorder.record(run_context.session, run_context.session.run, None)

        def recorded_monitored(master="", hooks=(), **options):
            return monitored(master=recorder.target, hooks=[Record()] + list(hooks), **options)

        tf.Session, tf.train.MonitoredTrainingSession = RecordedSession, recorded_monitored
        try:
            yield self
        finally:
            tf.Session, tf.train.MonitoredTrainingSession = session, monitored


@contextlib.contextmanager
def _datasets_as_they_are_written():
    """A session of 1.15 in one process fuses shuffle and repeat, which gives another order than the two one after the other."""
    if not IS_TF1:
        yield
        return
    from tensorflow.python.data.ops import dataset_ops
    kept = dataset_ops.Options._static_optimizations
    dataset_ops.Options._static_optimizations = lambda self: []
    try:
        yield
    finally:
        dataset_ops.Options._static_optimizations = kept


def _run_all_values(feeds):
    """Runs every value of the graph that nobody uses, each by itself; what fails is recorded by its error."""
    graph = tf.get_default_graph()
    operations = graph.get_operations()
    placeholders = [operation.outputs[0] for operation in operations if operation.type == "Placeholder"]
    checks.expect(len(placeholders) == len(feeds), "%d placeholders", len(placeholders))
    feed = dict(zip(placeholders, feeds))
    ends = [
        output
        for operation in operations
        for output in operation.outputs
        if not output.consumers() and graph.is_fetchable(output) and output.dtype not in (tf.resource, tf.variant)
    ]
    checks.expect(len(ends) > 5, "only %d values", len(ends))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for end in ends:
            try:
                session.run(end, feed)
            except tf.errors.OpError as error:
                session.run(tf.constant(error.error_code))


def _values(build, name, target, device, use_resource):
    np.random.seed(3)
    with tf.Graph().as_default(), tf.device(device), _Recorder(target, name).installed() as recorder:
        tf.set_random_seed(7)
        with tf.variable_scope("", use_resource=use_resource), _datasets_as_they_are_written():
            (tf.enable_resource_variables if use_resource else tf.disable_resource_variables)()
            build()
        if name in _BUILD_ONLY:
            _run_all_values(_BUILD_ONLY[name])
    return recorder.values


def _leaves(values):
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(values) if leaf is not None]
    # Text holds pictures, which are compressed differently, and names of temporary files.
    return [leaf for leaf in leaves if leaf.dtype.kind not in "SO"]


def _compare(expected, found):
    checks.expect(len(expected) == len(found), "%d runs instead of %d", len(found), len(expected))
    compared = 0
    for run, (expected_run, found_run) in enumerate(zip(expected, found)):
        expected_leaves, found_leaves = _leaves(expected_run), _leaves(found_run)
        checks.expect(len(expected_leaves) == len(found_leaves), "run %d returned other values", run)
        for position, (a, b) in enumerate(zip(expected_leaves, found_leaves)):
            where = "value %d of run %d" % (position, run)
            checks.expect((a.dtype, a.shape) == (b.dtype, b.shape), "%s: %s, not %s", where, (b.dtype, b.shape), (a.dtype, a.shape))
            close = np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) if a.dtype.kind in "fc" else np.array_equal(a, b)
            checks.expect(close, "%s is %s, not %s", where, b, a)
            compared += 1
    return compared


@functools.lru_cache(maxsize=None)
def _cluster_of_tensorflow():
    """Two parameter servers and a worker of TensorFlow's, and what keeps them alive."""
    with contextlib.ExitStack() as ports:
        sockets = [ports.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("localhost", 0))
        hosts = ["localhost:%d" % each.getsockname()[1] for each in sockets]
    cluster = cluster_flags.Cluster(hosts[:2], hosts[2:])
    tasks = [("ps", 0), ("ps", 1), ("worker", 0)]
    return cluster, [tf.train.Server(cluster.spec, job_name=job, task_index=index) for job, index in tasks]


def _expected(build, name, use_resource):
    if name not in _PLACED:
        return _values(build, name, "", None, use_resource)
    cluster, _ = _cluster_of_tensorflow()
    cluster.forget_variables()
    return _values(build, name, cluster.worker_target(), cluster.replica_device_setter(0), use_resource)


def _check(build, name, use_resource):
    def compare(cluster):
        expected = _expected(build, name, use_resource)
        cluster.forget_variables()
        device = cluster.replica_device_setter(0)
        found = _values(build, name, cluster.worker_target(), device, use_resource)
        return "%d values" % _compare(expected, found)

    compare.__name__ = name + ("_resource" if use_resource else "_ref")
    return compare


for _name, _build in tier2_programs.PROGRAMS.items():
    for _use_resource in (False, True):
        checks.check(_check(_build, _name, _use_resource))


if __name__ == "__main__":
    checks.main(__doc__)
