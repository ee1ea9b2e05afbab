"""Where the addresses of a cluster come from: a value of the program, several of them, or the variable TF_CONFIG."""

import json
import os

from tensorfleet.framework.export import export
from tensorfleet.training.server_lib import ClusterSpec


def format_master_url(master, rpc_layer=None):
    return "%s://%s" % (rpc_layer, master) if rpc_layer else master


@export("distribute.cluster_resolver.ClusterResolver", "contrib.cluster_resolver.ClusterResolver")
class ClusterResolver:
    """What knows a cluster."""

    def cluster_spec(self):
        raise NotImplementedError()

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        raise NotImplementedError()

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        """There are only processors here."""
        return {}

    @property
    def environment(self):
        return ""

    @property
    def task_type(self):
        return getattr(self, "_task_type", None)

    @property
    def task_id(self):
        return getattr(self, "_task_id", None)

    @property
    def rpc_layer(self):
        return getattr(self, "_rpc_layer", None)


@export("distribute.cluster_resolver.SimpleClusterResolver", "contrib.cluster_resolver.SimpleClusterResolver")
class SimpleClusterResolver(ClusterResolver):
    """A cluster that the program gives."""

    def __init__(self, cluster_spec, master="", task_type=None, task_id=None, environment="", num_accelerators=None, rpc_layer=None):
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a ClusterSpec.")
        if not isinstance(master, str):
            raise TypeError("master must be a string.")
        self._cluster_spec, self._master = cluster_spec, master
        self._task_type, self._task_id = task_type, task_id
        self._environment, self._num_accelerators, self._rpc_layer = environment, num_accelerators, rpc_layer

    def cluster_spec(self):
        return self._cluster_spec

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        if task_type is not None and task_id is not None:
            return format_master_url(self.cluster_spec().task_address(task_type, task_id), rpc_layer or self._rpc_layer)
        return self._master

    @property
    def task_type(self):
        return self._task_type

    @task_type.setter
    def task_type(self, task_type):
        self._task_type = task_type

    @property
    def task_id(self):
        return self._task_id

    @task_id.setter
    def task_id(self, task_id):
        self._task_id = task_id

    @property
    def environment(self):
        return self._environment

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        return self._num_accelerators or {}

    @property
    def rpc_layer(self):
        return self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer):
        self._rpc_layer = rpc_layer


@export("distribute.cluster_resolver.UnionResolver", "distribute.cluster_resolver.UnionClusterResolver", "contrib.cluster_resolver.UnionClusterResolver")
class UnionClusterResolver(ClusterResolver):
    """Several clusters as one; the master is the first one's."""

    def __init__(self, *args, **kwargs):
        self._rpc_layer = kwargs.pop("rpc_layer", None)
        self._task_type = kwargs.pop("task_type", None)
        self._task_id = kwargs.pop("task_id", None)
        if kwargs:
            raise ValueError("Unexpected kwargs provided {!r}".format(kwargs))
        if not args:
            raise ValueError("At least one ClusterResolver is required.")
        if not all(isinstance(resolver, ClusterResolver) for resolver in args):
            raise TypeError("All arguments must be a sub-class of `ClusterResolver.`")
        self._cluster_resolvers = args

    def cluster_spec(self):
        merged = {}
        for resolver in self._cluster_resolvers:
            held = resolver.cluster_spec()
            for job in held.jobs:
                tasks = merged.setdefault(job, {})
                for index in held.task_indices(job):
                    if index in tasks and tasks[index] != held.task_address(job, index):
                        raise KeyError("Duplicate keys detected when merging two ClusterSpecs: %s" % repr(index))
                    tasks[index] = held.task_address(job, index)
        return ClusterSpec(merged)

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        if task_type is not None and task_id is not None:
            return format_master_url(self.cluster_spec().task_address(task_type, task_id), rpc_layer or self._rpc_layer)
        return self._cluster_resolvers[0].master(rpc_layer=rpc_layer)

    @property
    def task_type(self):
        return self._task_type or self._cluster_resolvers[0].task_type

    @property
    def task_id(self):
        return self._task_id if self._task_id is not None else self._cluster_resolvers[0].task_id

    @property
    def environment(self):
        return self._cluster_resolvers[0].environment

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        return self._cluster_resolvers[0].num_accelerators(task_type, task_id, config_proto)

    @property
    def rpc_layer(self):
        return self._rpc_layer or self._cluster_resolvers[0].rpc_layer


@export("distribute.cluster_resolver.TFConfigClusterResolver", "contrib.cluster_resolver.TFConfigClusterResolver")
class TFConfigClusterResolver(ClusterResolver):
    """The cluster that the variable TF_CONFIG of the environment tells."""

    def __init__(self, task_type=None, task_id=None, rpc_layer=None, environment=None):
        self._task_type, self._task_id, self._rpc_layer, self._environment = task_type, task_id, rpc_layer, environment

    @staticmethod
    def _config():
        return json.loads(os.environ.get("TF_CONFIG", "{}"))

    def _value(self, own, key):
        if own is not None:
            return own
        return self._config().get(key)

    @property
    def task_type(self):
        task_type = self._task_type if self._task_type is not None else self._config().get("task", {}).get("type")
        return None if task_type is None else str(task_type)

    @task_type.setter
    def task_type(self, task_type):
        self._task_type = task_type

    @property
    def task_id(self):
        task_id = self._task_id if self._task_id is not None else self._config().get("task", {}).get("index")
        return None if task_id is None else int(task_id)

    @task_id.setter
    def task_id(self, task_id):
        self._task_id = task_id

    @property
    def environment(self):
        return self._value(self._environment, "environment") or ""

    @property
    def rpc_layer(self):
        return self._value(self._rpc_layer, "rpc_layer")

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer):
        self._rpc_layer = rpc_layer

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        return {}

    def cluster_spec(self):
        return ClusterSpec(self._config().get("cluster", {}))

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        held = self.cluster_spec()
        if not held.as_dict() or (len(held.jobs) == 1 and held.num_tasks(held.jobs[0]) == 1):
            return ""
        task_type = task_type if task_type is not None else self.task_type
        task_id = task_id if task_id is not None else self.task_id
        rpc_layer = rpc_layer if rpc_layer is not None else self.rpc_layer
        return format_master_url(held.task_address(task_type, task_id), rpc_layer)
