"""What users bring after the tutorials, once in this process and once on the cluster: the values must be the same.

The programs are those of `tier2_programs.py`. Each runs as it is, with variables on the parameter servers and the rest on
a worker; only the target of its sessions is another. All initial values and random numbers have fixed seeds.
"""

import contextlib

import numpy as np

import checks
import tier2_programs
from compat import IS_TF1, tf

# These fetch a variable together with what updates it, or the result of one update among several: TensorFlow leaves open
# which value they see. Of their values only types and shapes are compared.
_OPEN = {"opt_moving_average", "embedding_single", "word2vec_nce", "while_and_cond", "metrics"}
if IS_TF1:
    # A session of 1.15 in one process fuses shuffle and repeat, which gives another order.
    _OPEN.add("tf_data_one_shot")


class _Recorder:
    """Sends the sessions of a program to a target, and keeps what they return."""

    def __init__(self, target):
        self.target = target
        self.values = []

    @contextlib.contextmanager
    def installed(self):
        recorder, session, monitored = self, tf.Session, tf.train.MonitoredTrainingSession

        class RecordedSession(session):
            def __init__(self, target="", graph=None, config=None):
                config = config or tf.ConfigProto()
                config.allow_soft_placement = True
                super().__init__(recorder.target, graph, config)

            def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
                options = options or tf.RunOptions(timeout_in_ms=60000)
                values = super().run(fetches, feed_dict, options, run_metadata)
                recorder.values.append(values)
                return values

        def recorded_monitored(master="", **options):
            return monitored(master=recorder.target, **options)

        tf.Session, tf.train.MonitoredTrainingSession = RecordedSession, recorded_monitored
        try:
            yield self
        finally:
            tf.Session, tf.train.MonitoredTrainingSession = session, monitored


def _values(build, target, device, use_resource):
    np.random.seed(3)
    with tf.Graph().as_default(), tf.device(device), _Recorder(target).installed() as recorder:
        tf.set_random_seed(7)
        with tf.variable_scope("", use_resource=use_resource):
            (tf.enable_resource_variables if use_resource else tf.disable_resource_variables)()
            build()
    return recorder.values


def _leaves(values):
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(values) if leaf is not None]
    # Text holds pictures, which are compressed differently, and names of temporary files.
    return [leaf for leaf in leaves if leaf.dtype.kind not in "SO"]


def _compare(name, expected, found):
    checks.expect(len(expected) == len(found), "%d runs instead of %d", len(found), len(expected))
    compared = 0
    for run, (expected_run, found_run) in enumerate(zip(expected, found)):
        expected_leaves, found_leaves = _leaves(expected_run), _leaves(found_run)
        checks.expect(len(expected_leaves) == len(found_leaves), "run %d returned other values", run)
        for position, (a, b) in enumerate(zip(expected_leaves, found_leaves)):
            where = "value %d of run %d" % (position, run)
            checks.expect((a.dtype, a.shape) == (b.dtype, b.shape), "%s: %s, not %s", where, (b.dtype, b.shape), (a.dtype, a.shape))
            if name in _OPEN:
                continue
            close = np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) if a.dtype.kind in "fc" else np.array_equal(a, b)
            checks.expect(close, "%s is %s, not %s", where, b, a)
            compared += 1
    return compared


def _check(build, name, use_resource):
    def compare(cluster):
        expected = _values(build, "", None, use_resource)
        cluster.forget_variables()
        device = cluster.replica_device_setter(0)
        found = _values(build, cluster.worker_target(), device, use_resource)
        return "%d values" % _compare(name, expected, found)

    compare.__name__ = name + ("_resource" if use_resource else "_ref")
    return compare


for _name, _build in tier2_programs.PROGRAMS.items():
    for _use_resource in (False, True):
        checks.check(_check(_build, _name, _use_resource))


if __name__ == "__main__":
    checks.main(__doc__)
