"""What opens the sessions of a monitored session, the first one and those after failures."""

from tensorfleet import _native
from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.training.scaffold import Scaffold
from tensorfleet.training.session_manager import SessionManager


@export("train.SessionCreator")
class SessionCreator:
    """What opens sessions; programs derive from it."""

    def create_session(self):
        raise NotImplementedError("create_session is not implemented for {}.".format(self))


@export("train.ChiefSessionCreator")
class ChiefSessionCreator(SessionCreator):
    """Opens the sessions of the chief: it restores the newest checkpoint, or initialises the model."""

    def __init__(self, scaffold=None, master="", config=None, checkpoint_dir=None, checkpoint_filename_with_path=None):
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path
        self._scaffold = scaffold or Scaffold()
        self._session_manager = None
        self._master = master
        self._config = config
        self._client = _native.Client()

    def _get_session_manager(self):
        if self._session_manager is None:
            self._session_manager = _manager_of(self._scaffold)
        return self._session_manager

    def create_session(self):
        self._scaffold.finalize()
        scaffold = self._scaffold
        init_fn = None if scaffold.init_fn is None else (lambda session: scaffold.init_fn(scaffold, session))
        return self._get_session_manager()._prepare(
            self._master,
            scaffold.init_op,
            scaffold.saver,
            self._checkpoint_dir,
            self._checkpoint_filename_with_path,
            False,
            7200,
            self._config,
            scaffold.init_feed_dict,
            init_fn,
            self._client,
        )


@export("train.WorkerSessionCreator")
class WorkerSessionCreator(SessionCreator):
    """Opens the sessions of other tasks: they wait until the chief has made the model ready."""

    def __init__(self, scaffold=None, master="", config=None, max_wait_secs=30 * 60):
        self._scaffold = scaffold or Scaffold()
        self._session_manager = None
        self._master = master
        self._config = config
        self._max_wait_secs = max_wait_secs
        self._client = _native.Client()

    def _get_session_manager(self):
        if self._session_manager is None:
            self._session_manager = _manager_of(self._scaffold)
        return self._session_manager

    def create_session(self):
        self._scaffold.finalize()
        return self._get_session_manager()._wait(self._master, self._config, self._max_wait_secs, self._client)


def _manager_of(scaffold):
    return SessionManager(
        local_init_op=scaffold.local_init_op,
        local_init_feed_dict=scaffold.local_init_feed_dict,
        ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op,
        graph=ops.get_default_graph(),
    )
