"""`SessionManager`: opens sessions whose model is ready. The library does it."""

from tensorfleet import _native
from tensorfleet.client import session as session_lib
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.operation import Operation
from tensorfleet.training.saver import native_session


class LentSession(session_lib.Session):
    """A session of the library that is not closed when nobody uses this object any more."""

    def __del__(self):
        pass


def number_of(graph, value):
    """The number of a tensor, or of a variable's value; `None` of `None`."""
    if value is None:
        return None
    element = graph.as_graph_element(value)
    if isinstance(element, Operation):
        return None
    return element._id


def node_of(graph, value):
    """The number of the node of an operation or a tensor; several become one group."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        from tensorfleet.ops import control_flow

        was_finalized = graph.finalized
        graph._unsafe_unfinalize()
        with graph.as_default():
            value = control_flow.group(*value)
        if was_finalized:
            graph.finalize()
    element = graph.as_graph_element(value)
    return element._id if isinstance(element, Operation) else element.op._id


def feeds_of(graph, feed_dict):
    """What is fed, as the library takes it."""
    feeds = []
    for key, value in (feed_dict or {}).items():
        expanded = session_lib._expanded_feed(key, value)
        if expanded is not None:
            feeds.extend(feeds_of(graph, expanded))
            continue
        feed = session_lib._Feed(graph, key)
        feeds.append((feed.number, feed.dtype, feed.array(value)))
    return feeds


def config_bytes(config):
    return b"" if config is None else config.SerializeToString()


def lent_init_fn(graph, init_fn):
    """The init function as the library calls it."""
    if init_fn is None:
        return None
    return lambda native: init_fn(LentSession._of(native, graph))


def text_of(master):
    return master.decode() if isinstance(master, bytes) else (master or "")


def raised(error):
    """An error of preparing a session in the form TensorFlow has for it."""
    if isinstance(error, errors.FailedPreconditionError) and error.message.startswith(("Init operations did not", "Model is not initialized")):
        return RuntimeError(error.message)
    return error


@export("train.SessionManager")
class SessionManager:
    """Opens sessions whose model is ready: restored, initialised, or made ready by another task."""

    def __init__(
        self,
        local_init_op=None,
        ready_op=None,
        ready_for_local_init_op=None,
        graph=None,
        recovery_wait_secs=30,
        local_init_run_options=None,
        local_init_feed_dict=None,
    ):
        if graph is None:
            graph = ops.get_default_graph()
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph
        self._recovery_wait_secs = recovery_wait_secs
        self._target = None
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a local_init_op , ready_for_local_init_op [%s]" % ready_for_local_init_op)
        self._native = None

    def _manager(self):
        if self._native is None:
            graph = self._graph
            self._native = _native.SessionManager(
                graph._native,
                number_of(graph, self._ready_op),
                number_of(graph, self._ready_for_local_init_op),
                node_of(graph, self._local_init_op),
                feeds_of(graph, self._local_init_feed_dict),
                float(self._recovery_wait_secs),
            )
        return self._native

    def _init(self, init_op, init_feed_dict, init_fn, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint):
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        graph = self._graph
        library_saver = None if saver is None or saver._is_empty else saver._library_saver()
        return (
            node_of(graph, init_op),
            feeds_of(graph, init_feed_dict),
            lent_init_fn(graph, init_fn),
            library_saver,
            None if checkpoint_dir is None else str(checkpoint_dir),
            None if checkpoint_filename_with_path is None else str(checkpoint_filename_with_path),
            bool(wait_for_checkpoint),
        )

    def _wrapped(self, native, master, config):
        return session_lib.Session._of(native, self._graph, text_of(master), config)

    def prepare_session(
        self,
        master,
        init_op=None,
        saver=None,
        checkpoint_dir=None,
        checkpoint_filename_with_path=None,
        wait_for_checkpoint=False,
        max_wait_secs=7200,
        config=None,
        init_feed_dict=None,
        init_fn=None,
    ):
        """A session of the chief, which restores or initialises the model."""
        return self._prepare(
            master, init_op, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config, init_feed_dict, init_fn
        )

    def _prepare(self, master, init_op, saver, directory, filename, wait_for_checkpoint, max_wait_secs, config, init_feed_dict, init_fn, client=None):
        self._target = master
        init = self._init(init_op, init_feed_dict, init_fn, saver, directory, filename, wait_for_checkpoint)
        try:
            native = self._manager().prepare_session(self._graph._native, text_of(master), init, float(max_wait_secs), config_bytes(config), client)
        except errors.OpError as error:
            raise raised(errors.explained(error, self._graph)) from None
        return self._wrapped(native, master, config)

    def recover_session(
        self, master, saver=None, checkpoint_dir=None, checkpoint_filename_with_path=None, wait_for_checkpoint=False, max_wait_secs=7200, config=None
    ):
        """A session restored from a checkpoint if there is one, and whether its model is ready."""
        self._target = master
        init = self._init(None, None, None, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint)
        try:
            native, is_ready = self._manager().recover_session(self._graph._native, text_of(master), init, float(max_wait_secs), config_bytes(config))
        except errors.OpError as error:
            raise raised(errors.explained(error, self._graph)) from None
        return self._wrapped(native, master, config), is_ready

    def wait_for_session(self, master, config=None, max_wait_secs=float("Inf")):
        """A session of a task that is not the chief: waits until the chief has made the model ready."""
        return self._wait(master, config, max_wait_secs)

    def _wait(self, master, config, max_wait_secs, client=None):
        self._target = master
        if max_wait_secs is None:
            max_wait_secs = float("inf")
        try:
            native = self._manager().wait_for_session(text_of(master), float(max_wait_secs), config_bytes(config), client)
        except errors.OpError as error:
            raise raised(errors.explained(error, self._graph)) from None
        return self._wrapped(native, master, config)


__all__ = ["SessionManager", "native_session"]
