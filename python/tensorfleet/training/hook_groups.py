"""Hooks of Python as the library calls them."""

import weakref

from tensorfleet.framework import ops
from tensorfleet.training import queue_runner
from tensorfleet.training.coordinator import Coordinator
from tensorfleet.training.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues


def _merged_options(options, other):
    """The options of a run that several hooks want."""
    if other is None:
        return options
    if options is None:
        return other
    made = type(options)()
    made.CopyFrom(options)
    made.trace_level = max(options.trace_level, other.trace_level)
    made.timeout_in_ms = max(options.timeout_in_ms, other.timeout_in_ms)
    made.inter_op_thread_pool = max(options.inter_op_thread_pool, other.inter_op_thread_pool)
    made.output_partition_graphs = options.output_partition_graphs or other.output_partition_graphs
    return made


def _how(options):
    """Time-out in milliseconds, and whether the run is traced."""
    if options is None:
        return 0, False
    return max(options.timeout_in_ms, 0), bool(options.trace_level != 0 or options.output_partition_graphs)


class _InHook:
    """While hooks run: a run that one of them asks its own session for does not call them again."""

    __slots__ = ("_arguments",)

    def __init__(self, monitored):
        self._arguments = monitored._arguments

    def __enter__(self):
        self._arguments.is_in_hook = True

    def __exit__(self, *exception):
        self._arguments.is_in_hook = False
        return False


class _Hooks:
    """Hooks of Python that stand beside each other, as the library calls them."""

    def __init__(self, monitored, hooks, is_first):
        self._monitored = weakref.ref(monitored)
        self._hooks = hooks
        self._is_first = is_first

    def begin(self):
        for hook in self._hooks:
            hook.begin()

    def after_create_session(self, native, native_coordinator):
        monitored = self._monitored()
        session = monitored._tf_session
        if monitored._coordinator is None or self._is_first:
            monitored._coordinator = Coordinator._of(native_coordinator)
        if self._is_first and session.graph.get_collection(ops.GraphKeys.QUEUE_RUNNERS):
            queue_runner.start_queue_runners(sess=session, coord=monitored._coordinator)
        for hook in self._hooks:
            hook.after_create_session(session, monitored._coordinator)

    def before_run(self, is_stopped):
        monitored = self._monitored()
        if self._is_first or monitored._run_context is None:
            monitored._run_context = SessionRunContext(SessionRunArgs(*monitored._original_args), monitored._tf_session)
        context = monitored._run_context
        if is_stopped:
            context._stop_requested = True
        if not self._hooks:
            return None
        session = monitored._tf_session
        fetches, feed_dict, options = {}, {}, None
        with _InHook(monitored):
            for index, hook in enumerate(self._hooks):
                request = hook.before_run(context)
                if request is None:
                    continue
                if request.fetches is not None:
                    fetches[index] = request.fetches
                if request.feed_dict:
                    _raise_if_fed_twice(request.feed_dict, feed_dict, monitored._original_args[1])
                    feed_dict.update(request.feed_dict)
                options = _merged_options(options, request.options)
        self._options = options
        self._fetches = fetches
        plan = self._plan = session._plan(fetches) if fetches else None
        feeds = session._fed(feed_dict) if feed_dict else []
        timeout, is_traced = _how(options)
        wanted = (feeds, [] if plan is None else plan.fetches, [] if plan is None else plan.targets, timeout, is_traced)
        return wanted, context._stop_requested

    def after_run(self, is_stopped, values, metadata):
        monitored = self._monitored()
        context = monitored._run_context
        if is_stopped:
            context._stop_requested = True
        if self._hooks:
            from tensorfleet.protobuf import RunMetadata

            record = RunMetadata() if metadata is None else RunMetadata.FromString(metadata)
            results = {} if self._plan is None else self._plan.join(values)
            options = _merged_options(monitored._original_args[2], self._options)
            with _InHook(monitored):
                for index, hook in enumerate(self._hooks):
                    hook.after_run(context, SessionRunValues(results=results.get(index), options=options, run_metadata=record))
        return context._stop_requested

    def end(self, native):
        session = self._monitored()._tf_session
        for hook in self._hooks:
            hook.end(session)


def _raise_if_fed_twice(feed_dict, others, own):
    twice = [tensor for tensor in feed_dict if tensor in others]
    if twice:
        raise RuntimeError("Same tensor is fed by two hooks. Conflict(s): {}".format(twice))
    twice = [tensor for tensor in feed_dict if own and tensor in own]
    if twice:
        raise RuntimeError("Same tensor is fed by a SessionRunHook and user. Conflict(s): {}".format(twice))
