"""`ClusterSpec` and `Server`: the tasks of a cluster, and the server of one of them in this process."""

from tensorfleet import _native
from tensorfleet.framework.export import export
from tensorfleet.platform import compat


def _message(name):
    from tensorfleet import protobuf

    return getattr(protobuf, name)


def _address(task_address):
    try:
        text = compat.as_text(task_address)
    except TypeError:
        raise TypeError('Task address must be bytes or unicode, %r' % (task_address,)) from None
    return text


@export("train.ClusterSpec")
class ClusterSpec:
    """The jobs of a cluster and the addresses of their tasks."""

    def __init__(self, cluster):
        if isinstance(cluster, dict):
            self._cluster_spec = {}
            for job, tasks in cluster.items():
                if isinstance(tasks, (list, tuple)):
                    held = dict(enumerate(tasks))
                elif isinstance(tasks, dict):
                    for index in tasks:
                        if not isinstance(index, int):
                            raise TypeError("%r has type %s, but expected one of: int" % (index, type(index).__name__))
                    held = dict(tasks)
                else:
                    raise TypeError("The tasks for job %r must be a list or a dictionary from integers to strings." % job)
                self._cluster_spec[compat.as_text(job)] = {index: _address(address) for index, address in held.items()}
            self._make_cluster_def()
        elif isinstance(cluster, _message("ClusterDef")):
            self._cluster_def = cluster
            self._cluster_spec = {job.name: dict(job.tasks) for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._cluster_def = _message("ClusterDef")()
            self._cluster_def.MergeFrom(cluster.as_cluster_def())
            self._cluster_spec = {job.name: dict(job.tasks) for job in self._cluster_def.job}
        else:
            raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a `ClusterDef` protocol buffer")

    def _make_cluster_def(self):
        self._cluster_def = _message("ClusterDef")()
        for name, tasks in sorted(self._cluster_spec.items()):
            job = self._cluster_def.job.add()
            job.name = name
            for index, address in sorted(tasks.items()):
                job.tasks[index] = address

    def __bool__(self):
        return bool(self._cluster_spec)

    __nonzero__ = __bool__

    def __eq__(self, other):
        return self._cluster_spec == getattr(other, "_cluster_spec", other)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __str__(self):
        inner = ", ".join("%s: %s" % (repr(job), repr(self.job_tasks(job) if self._is_dense(job) else self._cluster_spec[job])) for job in sorted(self.jobs))
        return "ClusterSpec({" + inner + "})"

    def _is_dense(self, job):
        tasks = self._cluster_spec[job]
        return sorted(tasks) == list(range(len(tasks)))

    def as_dict(self):
        """The addresses of each job as a list, or as a dict if some numbers are left out."""
        return {job: self.job_tasks(job) if self._is_dense(job) else dict(self._cluster_spec[job]) for job in self.jobs}

    def as_cluster_def(self):
        return self._cluster_def

    @property
    def jobs(self):
        return list(self._cluster_spec.keys())

    def _tasks(self, job_name):
        try:
            return self._cluster_spec[job_name]
        except KeyError:
            raise ValueError("No such job in cluster: %r" % job_name) from None

    def num_tasks(self, job_name):
        return len(self._tasks(job_name))

    def task_indices(self, job_name):
        return sorted(self._tasks(job_name))

    def task_address(self, job_name, task_index):
        tasks = self._tasks(job_name)
        try:
            return tasks[task_index]
        except KeyError:
            raise ValueError("No task with index %r in job %r" % (task_index, job_name)) from None

    def job_tasks(self, job_name):
        tasks = self._tasks(job_name)
        listed = [None] * (max(tasks) + 1 if tasks else 0)
        for index, address in tasks.items():
            listed[index] = address
        return listed


def _make_server_def(server_or_cluster_def, job_name, task_index, protocol, config):
    """The whole description of a server, with defaults for what is not said."""
    ServerDef, ConfigProto = _message("ServerDef"), _message("ConfigProto")
    server_def = ServerDef()
    if isinstance(server_or_cluster_def, ServerDef):
        server_def.CopyFrom(server_or_cluster_def)
        for field, value in (("job_name", job_name), ("task_index", task_index), ("protocol", protocol)):
            if value is not None:
                setattr(server_def, field, value)
        if config is not None:
            server_def.default_session_config.CopyFrom(config)
    else:
        try:
            spec = ClusterSpec(server_or_cluster_def)
        except TypeError:
            raise TypeError("Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`.") from None
        server_def.cluster.CopyFrom(spec.as_cluster_def())
        server_def.job_name = job_name if job_name is not None else ""
        server_def.task_index = task_index if task_index is not None else 0
        server_def.protocol = protocol if protocol is not None else "grpc"
        if config is not None:
            if not isinstance(config, ConfigProto):
                raise TypeError("config must be a tf.ConfigProto, but got %s" % type(config))
            server_def.default_session_config.CopyFrom(config)
        if job_name is None or task_index is None:
            jobs = spec.jobs
            if job_name is None:
                if len(jobs) != 1:
                    raise ValueError("Must specify an explicit `job_name`.")
                server_def.job_name = jobs[0]
            if task_index is None:
                indices = spec.task_indices(server_def.job_name)
                if len(indices) != 1:
                    raise ValueError("Must specify an explicit `task_index`.")
                server_def.task_index = indices[0]
    if not server_def.protocol:
        server_def.protocol = "grpc"
    return server_def


#: Servers end with the process, as TensorFlow's do: programs keep the target and let the server go.
_RUNNING = []


@export("train.Server", "distribute.Server")
class Server:
    """The server of a task, in this process. It listens when it has been made."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        self._server_def = _make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        if self._server_def.protocol != "grpc":
            from tensorfleet.framework import errors

            raise errors.NotFoundError(
                None, None, "No server factory registered for the given ServerDef: %s\nThe available server factories are: [ GRPC_SERVER ]" % self._server_def
            )
        self._native = None
        if start:
            self.start()

    def start(self):
        """Starts the server, unless it runs."""
        if self._native is None:
            held = self._server_def
            config = held.default_session_config.SerializeToString()
            self._native = _native.Server(held.cluster.SerializeToString(), held.job_name, held.task_index, config)
            _RUNNING.append(self._native)

    def join(self):
        """Waits until the server ends, or the program is interrupted."""
        self.start()
        self._native.join()

    @property
    def server_def(self):
        return self._server_def

    @property
    def target(self):
        """What sessions connect to."""
        self.start()
        return self._native.target()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A server of a cluster of one task, at a port that is free."""
        cluster = ClusterSpec({"local": ["localhost:0"]})
        return Server(cluster, protocol="grpc", config=config, start=start)
