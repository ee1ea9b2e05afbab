"""`SessionRunHook`: what can watch and extend the runs of a monitored session."""

import collections

from tensorfleet.framework.export import export


@export("train.SessionRunHook", "estimator.SessionRunHook")
class SessionRunHook:
    """Something that happens around the runs of a `MonitoredSession`; programs derive from it."""

    def begin(self):
        """Called once before there is a session: the graph may still grow."""

    def after_create_session(self, session, coord):
        """Called when there is a session whose model is ready: the first one, and each that replaces one."""

    def before_run(self, run_context):
        """Called before each run; gives `SessionRunArgs` with what else is to be run, or `None`."""
        return None

    def after_run(self, run_context, run_values):
        """Called after each run that succeeded, with what `before_run` asked for."""

    def end(self, session):
        """Called when the session ends without an error."""


@export("train.SessionRunArgs", "estimator.SessionRunArgs")
class SessionRunArgs(collections.namedtuple("SessionRunArgs", ["fetches", "feed_dict", "options"])):
    """What a hook adds to a run."""

    def __new__(cls, fetches, feed_dict=None, options=None):
        return super().__new__(cls, fetches, feed_dict, options)


@export("train.SessionRunContext", "estimator.SessionRunContext")
class SessionRunContext:
    """The run that a hook is called around."""

    def __init__(self, original_args, session):
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self):
        return self._original_args

    @property
    def session(self):
        """The session itself; what runs in it does not go through the hooks."""
        return self._session

    @property
    def stop_requested(self):
        return self._stop_requested

    def request_stop(self):
        """Ends training after this run."""
        self._stop_requested = True


@export("train.SessionRunValues", "estimator.SessionRunValues")
class SessionRunValues(collections.namedtuple("SessionRunValues", ["results", "options", "run_metadata"])):
    """What a run gave a hook."""
