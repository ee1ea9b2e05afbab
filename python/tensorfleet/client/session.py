"""`Session`: runs parts of a graph."""

import numpy as np

from tensorfleet import _native
from tensorfleet.client import fetching
from tensorfleet.framework import constant, errors, stacks
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor

#: Structures whose plans a session keeps.
_MAX_PLANS = 4096


class SessionInterface:
    """What has a graph and runs parts of it."""

    @property
    def graph(self):
        raise NotImplementedError("graph")

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        raise NotImplementedError("run")


class _Feed:
    """What is known of a tensor that is fed."""

    __slots__ = ("tensor", "number", "dtype", "numpy", "shape")

    def __init__(self, graph, key):
        try:
            tensor = graph.as_graph_element(key, allow_operation=False)
        except (TypeError, ValueError, KeyError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0] if error.args else error}") from None
        if not graph.is_feedable(tensor):
            raise ValueError(f"Tensor {tensor} may not be fed.")
        self.tensor = tensor
        self.number = tensor._id
        dtype = tensor.dtype.base_dtype
        self.dtype = dtype.as_datatype_enum
        self.numpy = dtype.as_numpy_dtype
        self.shape = tensor.shape

    def array(self, value):
        if isinstance(value, Tensor):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
                f"numpy ndarrays, or TensorHandles. For reference, the tensor object was {value} which was passed to the feed "
                f"with key {self.tensor}."
            )
        if self.numpy is np.object_:
            array = constant._strings(value) if not isinstance(value, np.ndarray) else value
        else:
            if isinstance(value, int) and not isinstance(value, bool) and self.numpy(0).dtype.kind in "iu":
                if not _fits_integer(value, self.numpy):
                    raise TypeError(
                        f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {self.numpy}. Try "
                        "explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
                    )
            array = np.asarray(value, dtype=self.numpy)
        if not self.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"Cannot feed value of shape {array.shape!r} for Tensor {self.tensor.name!r}, which has shape {str(self.shape)!r}"
            )
        return array


def _fits_integer(value, numpy_type):
    limits = np.iinfo(numpy_type)
    return limits.min <= value <= limits.max


@export("Session")
class Session(SessionInterface):
    """Runs parts of a graph in this process (`""`) or on a server (`grpc://host:port`)."""

    _enforce_nesting = True

    def __init__(self, target="", graph=None, config=None):
        if graph is None:
            graph = stacks.get_default_graph()
        elif not hasattr(graph, "_native"):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if target is None:
            target = ""
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if config is not None and not hasattr(config, "SerializeToString"):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = graph
        self._target = target.encode()
        self._config = config
        self._plans = {}
        self._feeds = {}
        self._closed = False
        self._contexts = []
        self._partial_runs = {}
        self._native = _native.Session(graph._native, target, b"" if config is None else config.SerializeToString())

    @classmethod
    def _of(cls, native, graph, target="", config=None):
        """A session that the library opened."""
        session = object.__new__(cls)
        session._graph, session._target, session._config = graph, target.encode(), config
        session._plans, session._feeds, session._closed, session._contexts, session._partial_runs = {}, {}, False, [], {}
        session._native = native
        return session

    @property
    def graph(self):
        return self._graph

    @property
    def graph_def(self):
        return self._graph.as_graph_def()

    @property
    def sess_str(self):
        return self._target

    @property
    def _session(self):
        return self._native

    def list_devices(self):
        """The devices that nodes can be placed on."""
        from tensorfleet.protobuf import DeviceAttributes

        found = [DeviceAttributes.FromString(device) for device in self._native.list_devices()]
        return [_DeviceAttributes(device.name, device.device_type, device.memory_limit, device.incarnation) for device in found]

    def close(self):
        """Ends the session; running steps are cancelled."""
        self._closed = True
        self._native.close()

    def __enter__(self):
        graph_context = self._graph.as_default()
        graph_context.__enter__()
        session_context = self.as_default()
        session_context.__enter__()
        self._contexts.append((graph_context, session_context))
        return self

    def __exit__(self, exc_type, exc_value, exc_tb):
        graph_context, session_context = self._contexts.pop()
        session_context.__exit__(exc_type, exc_value, exc_tb)
        graph_context.__exit__(exc_type, exc_value, exc_tb)
        self.close()

    def as_default(self):
        return stacks.default_session(self)

    def __del__(self):
        native = self.__dict__.get("_native")
        if native is not None and not self._closed:
            try:
                native.close()
            except Exception:  # the interpreter may be ending; nobody could be told
                pass

    # ---- runs

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs what `fetches` needs, and gives their values in the same structure."""
        plan = self._plan(fetches)
        feeds = self._fed(feed_dict) if feed_dict else []
        timeout, traced = 0, False
        if options is not None:
            timeout = max(options.timeout_in_ms, 0)
            traced = options.trace_level != 0 or options.output_partition_graphs
        try:
            values, metadata = self._native.run(feeds, plan.fetches, plan.targets, timeout, traced or False)
        except errors.OpError as error:
            raise errors.explained(error, self._graph) from None
        if run_metadata is not None and metadata is not None:
            run_metadata.ParseFromString(metadata)
        return plan.join(values)

    def _plan(self, fetches):
        key = fetches if isinstance(fetches, Tensor) else _key(fetches)
        plan = self._plans.get(key) if key is not None else None
        if plan is None:
            if len(self._graph._native) == 0:
                raise RuntimeError("The Session graph is empty.  Add operations to the graph before calling run().")
            plan = fetching.Plan(self._graph, fetches)
            if key is not None:
                if len(self._plans) >= _MAX_PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        return plan

    def _fed(self, feed_dict):
        feeds = []
        for key, value in feed_dict.items():
            feed = self._feeds.get(key) if isinstance(key, Tensor) else None
            if feed is None:
                expanded = _expanded_feed(key, value)
                if expanded is not None:
                    feeds.extend(self._fed(expanded))
                    continue
                feed = _Feed(self._graph, key)
                if isinstance(key, Tensor) and len(self._feeds) < _MAX_PLANS:
                    self._feeds[key] = feed
            feeds.append((feed.number, feed.dtype, feed.array(value)))
        return feeds

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        """A function that runs `fetches` with one value for each tensor of `feed_list`."""
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        plan = fetching.Plan(self._graph, fetches)
        feeds = [_Feed(self._graph, feed) for feed in feed_list or ()]
        native, graph = self._native, self._graph

        def call(*feed_args, **kwargs):
            if len(feed_args) != len(feeds):
                raise TypeError(f"`feed_args` must have {len(feeds)} elements, got {len(feed_args)}")
            options, run_metadata = kwargs.get("options"), kwargs.get("run_metadata")
            if kwargs and not accept_options:
                raise TypeError(f"a callable without accept_options takes no keyword arguments, got {sorted(kwargs)}")
            fed = [(feed.number, feed.dtype, feed.array(value)) for feed, value in zip(feeds, feed_args)]
            timeout = 0 if options is None else max(options.timeout_in_ms, 0)
            traced = options is not None and options.trace_level != 0
            try:
                values, metadata = native.run(fed, plan.fetches, plan.targets, timeout, traced)
            except errors.OpError as error:
                raise errors.explained(error, graph) from None
            if run_metadata is not None and metadata is not None:
                run_metadata.ParseFromString(metadata)
            return plan.join(values)

        return call

    def partial_run_setup(self, fetches, feeds=None):
        """Begins a run in parts, and gives its handle."""
        plan = fetching.Plan(self._graph, fetches)
        fed = [_Feed(self._graph, feed) for feed in feeds or ()]
        begun = self._native.partial_run([feed.number for feed in fed], plan.fetches, plan.targets)
        handle = f"partial_run_{len(self._partial_runs)}_{id(begun)}"
        self._partial_runs[handle] = begun
        return handle

    def partial_run(self, handle, fetches, feed_dict=None):
        """Gives some feeds of a run in parts and takes some of its fetches."""
        begun = self._partial_runs.get(handle)
        if begun is None:
            raise ValueError("No previous call to `partial_run_setup` with this handle." if handle else "You must first call `partial_run_setup`.")
        plan = fetching.Plan(self._graph, fetches)
        try:
            values = begun.run(self._fed(feed_dict or {}), plan.fetches)
        except errors.OpError as error:
            raise errors.explained(error, self._graph) from None
        return plan.join(values)

    @staticmethod
    def reset(target, containers=None, config=None):
        """Clears containers of variables and queues on all tasks that the server at `target` knows."""
        containers = list(containers or ())
        _native.reset(target.decode() if isinstance(target, bytes) else target, containers)


class _DeviceAttributes:
    """A device of a session."""

    def __init__(self, name, device_type, memory_limit_bytes, incarnation):
        self.name, self.device_type = name, device_type
        self.memory_limit_bytes, self.incarnation = memory_limit_bytes, incarnation

    def __repr__(self):
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


def _key(fetches):
    """What tells a structure of fetches from others; `None` if it is not worth keeping."""
    kind = type(fetches)
    if kind is list or kind is tuple:
        keys = tuple([item if isinstance(item, Tensor) else _key(item) for item in fetches])
        return None if None in keys else (kind, keys)
    if kind is str:
        return fetches
    if kind is dict:
        keys = tuple([(name, _key(item)) for name, item in fetches.items()])
        return None if any(key is None for _, key in keys) else (kind, keys)
    return fetches if hasattr(fetches, "_id") or hasattr(fetches, "_as_graph_element") else None


def _expanded_feed(key, value):
    """Feeds of values made of several tensors as feeds of those."""
    if isinstance(key, SparseTensor):
        indices, values, shape = (value.indices, value.values, value.dense_shape) if hasattr(value, "dense_shape") else value
        return {key.indices: indices, key.values: values, key.dense_shape: shape}
    if isinstance(key, IndexedSlices):
        values, indices, *shape = (value.values, value.indices, value.dense_shape) if hasattr(value, "dense_shape") else value
        feeds = {key.values: values, key.indices: indices}
        if key.dense_shape is not None:
            feeds[key.dense_shape] = shape[0]
        return feeds
    for kind, _, feed_function, _ in fetching.EXPANSIONS:
        if isinstance(key, kind) and feed_function is not None:
            return dict(feed_function(key, value))
    if isinstance(key, tuple):
        # TensorFlow lets a tuple of tensors be fed with a tuple of values.
        return dict(zip(key, value))
    return None


BaseSession = Session


@export("InteractiveSession")
class InteractiveSession(Session):
    """A session that makes itself the default one when it is opened."""

    _enforce_nesting = False

    def __init__(self, target="", graph=None, config=None):
        super().__init__(target, graph, config)
        self._explicit_graph = graph
        self._default_session = self.as_default()
        self._default_session.__enter__()
        self._default_graph = None
        if graph is not None:
            self._default_graph = graph.as_default()
            self._default_graph.__enter__()

    def close(self):
        super().close()
        if self._default_graph is not None:
            self._default_graph.__exit__(None, None, None)
            self._default_graph = None
        if self._default_session is not None:
            self._default_session.__exit__(None, None, None)
            self._default_session = None

