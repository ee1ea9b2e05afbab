"""`MonitoredSession` and its kin: a session of the library with hooks around its runs, which survives the loss of tasks."""

import threading

from tensorfleet import _native
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.training import basic_session_run_hooks as hooks_lib
from tensorfleet.training.hook_groups import _Hooks, _how, _merged_options, _raise_if_fed_twice
from tensorfleet.training.scaffold import Scaffold
from tensorfleet.training.session_creator import ChiefSessionCreator, SessionCreator, WorkerSessionCreator
from tensorfleet.training.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues

#: What `MonitoredTrainingSession` does if nothing is said.
USE_DEFAULT = object()

__all__ = [
    "ChiefSessionCreator",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "Scaffold",
    "SessionCreator",
    "SingularMonitoredSession",
    "WorkerSessionCreator",
]


#: Hooks of the library that stand for these classes, unless a program derives from them.
_LIBRARY_HOOKS = (
    hooks_lib.StopAtStepHook,
    hooks_lib.CheckpointSaverHook,
    hooks_lib.SummarySaverHook,
    hooks_lib.StepCounterHook,
    hooks_lib.GlobalStepWaiterHook,
)


class _Level:
    """What programs find when they follow `_sess` to the session."""

    def __init__(self, monitored, depth):
        self._monitored, self._depth = monitored, depth

    @property
    def _sess(self):
        return self._monitored._tf_session if self._depth == 0 else _Level(self._monitored, self._depth - 1)

    def __getattr__(self, name):
        return getattr(self._monitored, name)


class _MonitoredSession:
    """What all monitored sessions share."""

    def __init__(self, session_creator, hooks, should_recover, stop_grace_period_secs=120):
        graph = self._graph = ops.get_default_graph()
        self._graph_was_finalized = graph.finalized
        self._hooks = list(hooks or [])
        self._session_creator = session_creator
        self._tf_session = None
        self._coordinator = None
        self._run_context = None
        self._native = None
        self._is_closed = False
        self._stop_beside = False
        self._arguments = threading.local()
        self._stop_grace_period_secs = stop_grace_period_secs
        self._native = _native.MonitoredSession(
            graph._native, self._create, self._groups(graph), bool(should_recover), float(stop_grace_period_secs)
        )

    @property
    def _original_args(self):
        """What the run of this thread was asked for."""
        return getattr(self._arguments, "value", (None, None, None))

    def _create(self):
        """Opens a session for the library."""
        with self._graph.as_default():
            self._tf_session = self._session_creator.create_session()
        return self._tf_session._native

    def _groups(self, graph):
        """The hooks as the library takes them: its own, and groups of those that stand beside each other in Python."""
        groups, beside = [], []

        def close_group():
            if beside or not groups:
                groups.append(_Hooks(self, list(beside), is_first=not groups))
                beside.clear()

        for hook in self._hooks:
            library = None
            if type(hook) in _LIBRARY_HOOKS:
                sessions = (lambda: self._tf_session,) if type(hook) is hooks_lib.CheckpointSaverHook else ()
                library = hook._library_hook(graph, *sessions)
            if library is None:
                beside.append(hook)
            else:
                close_group()
                groups.append(library)
        close_group()
        return groups

    # ---- what it is

    @property
    def graph(self):
        if self._tf_session is None:
            return None
        return self._graph

    @property
    def _sess(self):
        return None if self._is_closed else _Level(self, 2 if isinstance(self, MonitoredSession) else 1)

    @property
    def _coordinated_creator(self):
        return self

    @property
    def tf_sess(self):
        return self._tf_session

    @property
    def coord(self):
        return self._coordinator

    def _tf_sess(self):
        return self._tf_session

    def _is_closed_session(self):
        return self._is_closed

    # ---- runs

    def _check(self):
        if self._is_closed:
            raise RuntimeError("Attempted to use a closed Session.")

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs what `fetches` needs and what hooks ask for, in one run."""
        self._check()
        session = self._tf_session
        plan = session._plan(fetches)
        feeds = session._fed(feed_dict) if feed_dict else []
        timeout, is_traced = _how(options)
        if not getattr(self._arguments, "is_in_hook", False):
            self._arguments.value = (fetches, feed_dict, options)
        try:
            ran = self._native.run((feeds, plan.fetches, plan.targets, timeout, is_traced))
        except errors.OpError as error:
            raise self._raised(error)
        if ran is None:
            return self._run_beside(session, fetches, feed_dict, options, run_metadata)
        values, metadata = ran
        if run_metadata is not None and metadata is not None:
            run_metadata.ParseFromString(metadata)
        return plan.join(values)

    def _run_beside(self, session, fetches, feed_dict, options, run_metadata):
        """A run while another thread runs: hooks of Python are called around it, those of the library see the other run."""
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict, options), session)
        hooks = [] if getattr(self._arguments, "is_in_hook", False) else [hook for hook in self._hooks if type(hook) not in _LIBRARY_HOOKS]
        asked, feeds = {"caller": fetches}, dict(feed_dict or {})
        for index, hook in enumerate(hooks):
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                asked[index] = request.fetches
            if request.feed_dict:
                _raise_if_fed_twice(request.feed_dict, {}, feeds)
                feeds.update(request.feed_dict)
            options = _merged_options(options, request.options)
        results = session.run(asked, feeds or None, options, run_metadata)
        for index, hook in enumerate(hooks):
            hook.after_run(context, SessionRunValues(results=results.get(index), options=options, run_metadata=run_metadata))
        self._stop_beside = self._stop_beside or context.stop_requested
        return results["caller"]

    def _raised(self, error):
        """An error of the library in the form the program should see."""
        if error.message.startswith("Run called even after should_stop requested"):
            return RuntimeError("Run called even after should_stop requested.")
        coordinator = self._coordinator
        kept = None if coordinator is None else coordinator._exc_info_to_raise
        if kept is not None and str(kept[1]) == error.message:
            return kept[1].with_traceback(kept[2])
        return errors.explained(error, self._graph)

    def run_step_fn(self, step_fn):
        """Calls `step_fn(step_context)`, whose runs are one step: the whole is tried again after the loss of a task."""
        import inspect

        arguments = tuple(inspect.signature(step_fn).parameters)
        if arguments != ("step_context",):
            raise ValueError("`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it's an instance method. Got {} instead.".format(arguments))
        self._check()

        def call(native):
            return step_fn(MonitoredSession.StepContext(self, native))

        return self._native.run_step(call)

    def should_stop(self):
        """Whether the training loop should end."""
        if self._is_closed or self._stop_beside:
            return True
        stops = self._native.should_stop()
        if stops is None:
            return self._coordinator is not None and self._coordinator.should_stop()
        return stops

    def close(self):
        """Ends it: hooks finish their work."""
        self._close_internal()

    def __enter__(self):
        return self

    def __exit__(self, exception_type, exception_value, traceback):
        if exception_type in [errors.OutOfRangeError, StopIteration]:
            exception_type = None
        self._close_internal(exception_type)
        # As in TensorFlow, the end of an input ends the block and is no error.
        return exception_type is None

    def _close_internal(self, exception_type=None):
        try:
            self._native.close(exception_type is not None)
        except errors.OpError as error:
            raise self._raised(error)
        finally:
            self._is_closed = True
            session, coordinator = self._tf_session, self._coordinator
            self._tf_session = self._coordinator = None
            for thread in coordinator._registered_threads if coordinator is not None else ():
                thread.join(self._stop_grace_period_secs)
            if session is not None:
                session._closed = True
            if not self._graph_was_finalized:
                self._graph._unsafe_unfinalize()


@export("train.MonitoredSession")
class MonitoredSession(_MonitoredSession):
    """A session with hooks around its runs, which goes on when tasks were lost."""

    def __init__(self, session_creator=None, hooks=None, stop_grace_period_secs=120):
        super().__init__(session_creator or ChiefSessionCreator(), hooks, should_recover=True, stop_grace_period_secs=stop_grace_period_secs)

    class StepContext:
        """A step of several runs; see `run_step_fn`."""

        def __init__(self, monitored, native):
            self._monitored, self._native = monitored, native

        @property
        def session(self):
            return self._monitored._tf_session

        def run_with_hooks(self, *args, **kwargs):
            """A run with the hooks."""
            return self._run(*args, **kwargs)

        def _run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            session = self._monitored._tf_session
            plan = session._plan(fetches)
            feeds = session._fed(feed_dict) if feed_dict else []
            self._monitored._arguments.value = (fetches, feed_dict, options)
            return plan.join(self._native.run_with_hooks((feeds, plan.fetches, plan.targets, 0, False)))

        def request_stop(self):
            """Ends the step at once, and training after it."""
            self._native.request_stop()
            raise StopIteration("step_fn has requested the iterations to stop.")


@export("train.SingularMonitoredSession")
class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that reports the loss of tasks instead of going on."""

    def __init__(self, hooks=None, scaffold=None, master="", config=None, checkpoint_dir=None, stop_grace_period_secs=120, checkpoint_filename_with_path=None):
        creator = ChiefSessionCreator(
            scaffold=scaffold, master=master, config=config, checkpoint_dir=checkpoint_dir, checkpoint_filename_with_path=checkpoint_filename_with_path
        )
        super().__init__(creator, hooks, should_recover=False, stop_grace_period_secs=stop_grace_period_secs)

    def raw_session(self):
        """The session itself."""
        return self._tf_sess()

    StepContext = MonitoredSession.StepContext


@export("train.MonitoredTrainingSession")
def MonitoredTrainingSession(
    master="",
    is_chief=True,
    checkpoint_dir=None,
    scaffold=None,
    hooks=None,
    chief_only_hooks=None,
    save_checkpoint_secs=USE_DEFAULT,
    save_summaries_steps=USE_DEFAULT,
    save_summaries_secs=USE_DEFAULT,
    config=None,
    stop_grace_period_secs=120,
    log_step_count_steps=100,
    max_wait_secs=7200,
    save_checkpoint_steps=USE_DEFAULT,
    summary_dir=None,
):
    """A monitored session with what distributed training usually needs."""
    if save_summaries_steps is USE_DEFAULT and save_summaries_secs is USE_DEFAULT:
        save_summaries_steps, save_summaries_secs = 100, None
    elif save_summaries_secs is USE_DEFAULT:
        save_summaries_secs = None
    elif save_summaries_steps is USE_DEFAULT:
        save_summaries_steps = None
    if save_checkpoint_steps is USE_DEFAULT and save_checkpoint_secs is USE_DEFAULT:
        save_checkpoint_steps, save_checkpoint_secs = None, 600
    elif save_checkpoint_secs is USE_DEFAULT:
        save_checkpoint_secs = None
    elif save_checkpoint_steps is USE_DEFAULT:
        save_checkpoint_steps = None
    scaffold = scaffold or Scaffold()
    if not is_chief:
        creator = WorkerSessionCreator(scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs)
        return MonitoredSession(session_creator=creator, hooks=hooks or [], stop_grace_period_secs=stop_grace_period_secs)
    all_hooks = []
    if chief_only_hooks:
        all_hooks.extend(chief_only_hooks)
    creator = ChiefSessionCreator(scaffold=scaffold, checkpoint_dir=checkpoint_dir, master=master, config=config)
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps and log_step_count_steps > 0:
            all_hooks.append(hooks_lib.StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps))
        if (save_summaries_steps and save_summaries_steps > 0) or (save_summaries_secs and save_summaries_secs > 0):
            all_hooks.append(
                hooks_lib.SummarySaverHook(scaffold=scaffold, save_steps=save_summaries_steps, save_secs=save_summaries_secs, output_dir=summary_dir)
            )
    if checkpoint_dir:
        if (save_checkpoint_secs and save_checkpoint_secs > 0) or (save_checkpoint_steps and save_checkpoint_steps > 0):
            all_hooks.append(
                hooks_lib.CheckpointSaverHook(checkpoint_dir, save_steps=save_checkpoint_steps, save_secs=save_checkpoint_secs, scaffold=scaffold)
            )
    if hooks:
        all_hooks.extend(hooks)
    return MonitoredSession(session_creator=creator, hooks=all_hooks, stop_grace_period_secs=stop_grace_period_secs)
