"""`replica_device_setter`: variables to the parameter servers, everything else to a worker."""

from tensorfleet import _native
from tensorfleet.framework.device import DeviceSpec, _NodeBeingBuilt
from tensorfleet.framework.export import export

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
)


class _ReplicaDeviceSetter:
    """The library's device function. It may also be called with an operation, or a `NodeDef`, as functions of Python call each other."""

    def __init__(self, native):
        self._native_device_setter = native

    def __call__(self, op):
        node_def = op if hasattr(op, "SerializeToString") else op.node_def
        return self._native_device_setter.choose(node_def.SerializeToString())


@export("train.replica_device_setter")
def replica_device_setter(
    ps_tasks=0,
    ps_device="/job:ps",
    worker_device="/job:worker",
    merge_devices=True,
    cluster=None,
    ps_ops=None,
    ps_strategy=None,
):
    """A device function for between-graph replication, or `None` if there are no parameter servers."""
    cluster_def = None
    if cluster is not None:
        from tensorfleet import train

        cluster = cluster if isinstance(cluster, train.ClusterSpec) else train.ClusterSpec(cluster)
        jobs = cluster.as_dict()
        job = DeviceSpec.from_string(ps_device).job
        if not jobs.get(job):
            return None
        ps_tasks, cluster_def = len(jobs[job]), cluster.as_cluster_def().SerializeToString()
    if ps_tasks == 0:
        return None
    if ps_strategy is not None and not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    if not merge_devices:
        from tensorfleet.platform import tf_logging

        tf_logging.warning("DEPRECATION: It is recommended to set merge_devices=true in replica_device_setter")
    strategy = None if ps_strategy is None else lambda view: int(ps_strategy(_NodeBeingBuilt(view)))
    ps_ops = list(STANDARD_PS_OPS if ps_ops is None else ps_ops)
    return _ReplicaDeviceSetter(
        _native.DeviceSetter(ps_tasks, cluster_def, ps_device or "", worker_device or "", merge_devices, ps_ops, strategy)
    )


@export("contrib.training.RandomStrategy")
class RandomStrategy:
    """A server for each variable that follows from its name: the same in every worker."""

    def __init__(self, num_ps_tasks, seed=0):
        self._num_tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op):
        import hashlib

        digest = hashlib.md5(f"{op.name}_{self._seed:d}".encode()).hexdigest()
        return int(digest, 16) % self._num_tasks


@export("contrib.training.GreedyLoadBalancingStrategy")
class GreedyLoadBalancingStrategy:
    """Each variable to the server that has the least load so far."""

    def __init__(self, num_tasks, load_fn):
        self._num_tasks = num_tasks
        self._load_fn = load_fn
        self._ps_loads = [0] * num_tasks

    def __call__(self, op):
        task = self._ps_loads.index(min(self._ps_loads))
        self._ps_loads[task] += self._load_fn(op)
        return task


@export("contrib.training.byte_size_load_fn")
def byte_size_load_fn(op):
    """What a variable takes in memory."""
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op} must have a single output")
    output = op.outputs[0]
    shape = output.get_shape()
    if not shape.is_fully_defined():
        from tensorfleet.framework.tensor_shape import TensorShape

        shape = TensorShape(op.get_attr("shape"))
    shape.assert_is_fully_defined()
    return shape.num_elements() * output.dtype.size
