"""`QueueRunner`: threads of the library that keep a queue filled."""

import weakref

from tensorfleet import _native
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training.coordinator import Coordinator


class _Thread:
    """A thread of the library, which looks like one of Python."""

    def __init__(self, native, runner, is_coordinated):
        self._native, self._runner, self._is_coordinated = native, runner, is_coordinated
        self.name = native.name
        self.daemon = True

    def start(self):
        self._native.start()

    def is_alive(self):
        return self._native.is_alive()

    def join(self, timeout=None):
        self._native.join(timeout)
        if not self.is_alive() and not self._is_coordinated:
            error = self._native.error()
            if error is not None and error not in self._runner._exceptions_raised:
                self._runner._exceptions_raised.append(error)

    def setDaemon(self, daemonic):
        self.daemon = daemonic

    def __repr__(self):
        return f"<QueueRunnerThread({self.name})>"


@export("train.QueueRunner", "train.queue_runner.QueueRunner")
class QueueRunner:
    """What fills a queue: operations that are run again and again, each by a thread of its own."""

    def __init__(
        self,
        queue=None,
        enqueue_ops=None,
        close_op=None,
        cancel_op=None,
        queue_closed_exception_types=None,
        queue_runner_def=None,
        import_scope=None,
    ):
        if queue_runner_def:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope)
        else:
            self._init_from_args(queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types)
        self._exceptions_raised = []
        self._runners = weakref.WeakKeyDictionary()

    def _init_from_args(self, queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types):
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        self._queue = queue
        self._enqueue_ops = enqueue_ops
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        types = queue_closed_exception_types
        if types is None:
            types = (errors.OutOfRangeError,)
        elif not isinstance(types, tuple) or not types or not all(issubclass(kind, errors.OpError) for kind in types):
            raise TypeError("queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: %s" % (types,))
        self._set_types(types)

    def _set_types(self, types):
        # As in TensorFlow, a cancelled enqueue means that the queue was closed.
        self._queue_closed_exception_types = types if errors.CancelledError in types else types + (errors.CancelledError,)
        self._own_types = types

    def _init_from_proto(self, queue_runner_def, import_scope):
        graph = ops.get_default_graph()

        def element(name):
            return graph.as_graph_element(ops.prepend_name_scope(name, import_scope))

        self._queue = element(queue_runner_def.queue_name)
        self._enqueue_ops = [element(name) for name in queue_runner_def.enqueue_op_name]
        self._close_op = element(queue_runner_def.close_op_name)
        self._cancel_op = element(queue_runner_def.cancel_op_name)
        codes = queue_runner_def.queue_closed_exception_types
        types = tuple(errors.exception_type_from_error_code(code) for code in codes)
        self._set_types(types or (errors.OutOfRangeError,))

    @property
    def queue(self):
        return self._queue

    @property
    def enqueue_ops(self):
        return self._enqueue_ops

    @property
    def close_op(self):
        return self._close_op

    @property
    def cancel_op(self):
        return self._cancel_op

    @property
    def queue_closed_exception_types(self):
        return self._own_types

    @property
    def exceptions_raised(self):
        """Errors of threads that no coordinator was told of."""
        return self._exceptions_raised

    @property
    def name(self):
        """The name of the queue."""
        return self._queue.name

    def _library_runner(self, graph):
        runner = self._runners.get(graph)
        if runner is None:
            def node(op):
                return getattr(op, "op", op)._id

            codes = [errors.error_code_from_exception_type(kind) for kind in self._queue_closed_exception_types]
            enqueue = [node(op) for op in self._enqueue_ops]
            runner = _native.QueueRunner(graph._native, self.name, enqueue, node(self._close_op), node(self._cancel_op), codes)
            self._runners[graph] = runner
        return runner

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        """The threads that fill the queue in `sess`; none if they run there already."""
        runner = self._library_runner(sess.graph)
        native = sess._tf_sess()._native if hasattr(sess, "_tf_sess") else sess._native
        told = coord if coord is not None else Coordinator()
        made = [_Thread(thread, self, coord is not None) for thread in runner.threads(native, told._native)]
        if coord is None:
            made = made[:-1]  # nobody would tell the last one, which closes the queue, to do so
        for thread in made:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return made

    def to_proto(self, export_scope=None):
        """The runner as a `QueueRunnerDef`; `None` if it is not inside the scope."""
        from tensorfleet.protobuf import QueueRunnerDef

        if export_scope is not None and not self.queue.name.startswith(export_scope):
            return None
        made = QueueRunnerDef(queue_name=ops.strip_name_scope(self.queue.name, export_scope))
        for op in self._enqueue_ops:
            made.enqueue_op_name.append(ops.strip_name_scope(op.name, export_scope))
        made.close_op_name = ops.strip_name_scope(self._close_op.name, export_scope)
        made.cancel_op_name = ops.strip_name_scope(self._cancel_op.name, export_scope)
        made.queue_closed_exception_types.extend(errors.error_code_from_exception_type(kind) for kind in self._own_types)
        return made

    @staticmethod
    def from_proto(queue_runner_def, import_scope=None):
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


@export("train.add_queue_runner", "train.queue_runner.add_queue_runner")
def add_queue_runner(qr, collection=GraphKeys.QUEUE_RUNNERS):
    """Adds a runner to those that `start_queue_runners` starts."""
    ops.add_to_collection(collection, qr)


@export("train.start_queue_runners", "train.queue_runner.start_queue_runners")
def start_queue_runners(sess=None, coord=None, daemon=True, start=True, collection=GraphKeys.QUEUE_RUNNERS):
    """Starts the threads of all runners of the graph."""
    if sess is None:
        sess = ops.get_default_session()
        if not sess:
            raise ValueError("Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an explicit session to tf.start_queue_runners(sess=sess)")
    if not hasattr(sess, "graph") or not hasattr(sess, "run"):
        raise TypeError("sess must be a `tf.Session` object. Given class: {}".format(type(sess)))
    runners = sess.graph.get_collection(collection)
    if not runners:
        logging.warning("`tf.train.start_queue_runners()` was called when no queue runners were defined. You can safely remove the call to this deprecated function.")
    with sess.graph.as_default():
        threads = []
        for runner in ops.get_collection(collection):
            threads.extend(runner.create_threads(sess, coord=coord, daemon=daemon, start=start))
    return threads
