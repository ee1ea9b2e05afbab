"""`Supervisor`: the elder way to supervise training. The library opens the sessions and runs the services."""

import contextlib
import os
import threading
import time
import weakref

from tensorfleet import _native
from tensorfleet.client import session as session_lib
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training import saver as saver_lib
from tensorfleet.training import session_manager as session_manager_mod
from tensorfleet.training import training_util
from tensorfleet.training.coordinator import Coordinator, LooperThread

_WAIT_SECS = 7200
#: How long threads may take to end before their session is closed under them.
_STUCK_SECS = 1.0


class _Service:
    """A thread of the library, as `start_standard_services` lists it."""

    def __init__(self, name, coordinator):
        self.name, self.daemon, self._coordinator = name, True, coordinator

    def is_alive(self):
        return self._coordinator._native.has_live_threads()

    def join(self, timeout=None):
        import time

        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_alive() and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.005)

    def start(self):
        """It has been started."""

    def __repr__(self):
        return f"<{self.name}>"


@export("train.Supervisor")
class Supervisor:
    """Supervises training: the chief restores or initialises the model and saves it; the others wait for the chief."""

    USE_DEFAULT = 0

    def __init__(
        self,
        graph=None,
        ready_op=USE_DEFAULT,
        ready_for_local_init_op=USE_DEFAULT,
        is_chief=True,
        init_op=USE_DEFAULT,
        init_feed_dict=None,
        local_init_op=USE_DEFAULT,
        logdir=None,
        summary_op=USE_DEFAULT,
        saver=USE_DEFAULT,
        global_step=USE_DEFAULT,
        save_summaries_secs=120,
        save_model_secs=600,
        recovery_wait_secs=30,
        stop_grace_secs=120,
        checkpoint_basename="model.ckpt",
        session_manager=None,
        summary_writer=USE_DEFAULT,
        init_fn=None,
        local_init_run_options=None,
    ):
        if graph is None:
            graph = ops.get_default_graph()
        self._graph = graph
        self._is_chief = is_chief
        self._coord = Coordinator()
        self._recovery_wait_secs = recovery_wait_secs
        self._stop_grace_secs = stop_grace_secs
        self._init_fn = init_fn
        self._local_init_run_options = local_init_run_options
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._save_summaries_secs = save_summaries_secs
        self._save_model_secs = save_model_secs
        self._checkpoint_basename = checkpoint_basename
        self._native = None
        self._session = None
        with graph.as_default():
            self._init_ready_op(ready_op, ready_for_local_init_op)
            self._init_init_op(init_op, init_feed_dict)
            self._init_local_init_op(local_init_op)
            self._init_saver(saver)
            self._init_summary_op(summary_op)
            self._init_global_step(global_step)
            self._verify_setup()
        self._own_session_manager = session_manager
        self._session_manager = session_manager or session_manager_mod.SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=graph,
            recovery_wait_secs=recovery_wait_secs,
        )
        self._save_path = None
        self._summary_writer = None
        self._init_services(summary_writer)
        graph.finalize()

    # ---- parts

    def _first(self, key):
        """The first thing of a collection; `None` if there is none."""
        found = ops.get_collection(key)
        if found:
            if len(found) > 1:
                logging.info("Found %d %s operations. Returning the first one.", len(found), key)
            return found[0]
        return None

    _get_first_op_from_collection = _first

    def _init_ready_op(self, ready_op, ready_for_local_init_op):
        from tensorfleet.ops import variables

        if ready_op is Supervisor.USE_DEFAULT:
            ready_op = self._first(GraphKeys.READY_OP)
            if ready_op is None:
                ready_op = variables.report_uninitialized_variables()
                ops.add_to_collection(GraphKeys.READY_OP, ready_op)
        self._ready_op = ready_op
        if ready_for_local_init_op is Supervisor.USE_DEFAULT:
            ready_for_local_init_op = self._first(GraphKeys.READY_FOR_LOCAL_INIT_OP)
        self._ready_for_local_init_op = ready_for_local_init_op

    def _init_init_op(self, init_op, init_feed_dict):
        from tensorfleet.ops import variables

        if init_op is Supervisor.USE_DEFAULT:
            init_op = self._first(GraphKeys.INIT_OP)
            if init_op is None:
                init_op = variables.global_variables_initializer()
                ops.add_to_collection(GraphKeys.INIT_OP, init_op)
        self._init_op = init_op
        self._init_feed_dict = init_feed_dict

    def _init_local_init_op(self, local_init_op):
        from tensorfleet.ops import control_flow, variables
        from tensorfleet.training.scaffold import tables_initializer

        if local_init_op is Supervisor.USE_DEFAULT:
            local_init_op = self._first(GraphKeys.LOCAL_INIT_OP)
            if local_init_op is None:
                inits = [op for op in (variables.local_variables_initializer(), tables_initializer()) if op is not None]
                if inits:
                    local_init_op = control_flow.group(*inits)
                    ops.add_to_collection(GraphKeys.LOCAL_INIT_OP, local_init_op)
        self._local_init_op = local_init_op

    def _init_saver(self, saver):
        if saver is Supervisor.USE_DEFAULT:
            saver = self._first(GraphKeys.SAVERS)
            if saver is None and saver_lib._all_saveable_objects():
                saver = saver_lib.Saver()
                ops.add_to_collection(GraphKeys.SAVERS, saver)
        self._saver = saver

    def _init_summary_op(self, summary_op):
        from tensorfleet.summaries import summary

        if summary_op is Supervisor.USE_DEFAULT:
            summary_op = self._first(GraphKeys.SUMMARY_OP)
            if summary_op is None:
                summary_op = summary.merge_all()
                if summary_op is not None:
                    ops.add_to_collection(GraphKeys.SUMMARY_OP, summary_op)
        self._summary_op = summary_op

    def _init_global_step(self, global_step):
        if global_step is Supervisor.USE_DEFAULT:
            global_step = self._first(GraphKeys.GLOBAL_STEP)
            if global_step is None:
                global_step = self._default_global_step_tensor()
                if global_step is not None:
                    ops.add_to_collection(GraphKeys.GLOBAL_STEP, global_step)
        self._global_step = global_step

    def _default_global_step_tensor(self):
        try:
            step = ops.get_default_graph().get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        if step.dtype.base_dtype.name in ("int32", "int64"):
            return step
        logging.warning("Found 'global_step' but is not an int type: %s", step.dtype)
        return None

    def _verify_setup(self):
        if not self._is_chief:
            for op in self._graph.get_operations():
                if op.type in ("Variable", "VariableV2") and not op.device:
                    raise ValueError("When using replicas, all Variables must have their device set: %s" % op)

    def _init_services(self, summary_writer):
        from tensorfleet.summaries.writer import FileWriter

        graph, number, node = self._graph, session_manager_mod.number_of, session_manager_mod.node_of
        if self._is_chief:
            if self._logdir:
                self._save_path = os.path.join(self._logdir, self._checkpoint_basename)
            if summary_writer is Supervisor.USE_DEFAULT:
                if self._logdir:
                    self._summary_writer = FileWriter(self._logdir)
            else:
                self._summary_writer = summary_writer
        step = None
        if self._global_step is not None:
            step = (graph.as_graph_element(self._global_step)._id, self._global_step.op.name)
        saver_lib._teach_meta_graphs(graph)
        saver = None if self._saver is None or self._saver._is_empty else self._saver._library_saver()
        native_writer = None
        if self._summary_writer is not None and hasattr(self._summary_writer, "event_writer"):
            native_writer = self._summary_writer.event_writer._native
        summary_op = self._summary_op
        self._native = _native.Supervisor(
            graph._native,
            bool(self._is_chief),
            self._logdir or None,
            (
                node(graph, self._init_op),
                node(graph, self._local_init_op),
                number(graph, self._ready_op),
                number(graph, self._ready_for_local_init_op),
                None if summary_op is None else graph.as_graph_element(summary_op)._id,
                step,
            ),
            (session_manager_mod.feeds_of(graph, self._init_feed_dict), []),
            session_manager_mod.lent_init_fn(graph, self._init_fn),
            saver,
            native_writer,
            self._coord._native,
            (float(self._save_model_secs or 0), float(self._save_summaries_secs or 0), float(self._recovery_wait_secs), float(self._stop_grace_secs)),
            self._checkpoint_basename,
        )

    # ---- what it has

    @property
    def is_chief(self):
        return self._is_chief

    @property
    def session_manager(self):
        return self._session_manager

    @property
    def coord(self):
        return self._coord

    @property
    def init_op(self):
        return self._init_op

    @property
    def init_feed_dict(self):
        return self._init_feed_dict

    @property
    def ready_op(self):
        return self._ready_op

    @property
    def ready_for_local_init_op(self):
        return self._ready_for_local_init_op

    @property
    def summary_writer(self):
        return self._summary_writer

    @property
    def summary_op(self):
        return self._summary_op

    @property
    def save_summaries_secs(self):
        return self._save_summaries_secs

    @property
    def global_step(self):
        return self._global_step

    @property
    def saver(self):
        return self._saver

    @property
    def save_model_secs(self):
        return self._save_model_secs

    @property
    def save_path(self):
        return self._save_path

    # ---- sessions

    def prepare_or_wait_for_session(self, master="", config=None, wait_for_checkpoint=False, max_wait_secs=_WAIT_SECS, start_standard_services=True):
        """A session whose model is ready; starts the services of the chief and the queue runners."""
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        sess = self._open_session(master, config, wait_for_checkpoint, max_wait_secs)
        if self._is_chief and start_standard_services:
            logging.info("Starting standard services.")
            self.start_standard_services(sess)
        logging.info("Starting queue runners.")
        self.start_queue_runners(sess)
        self._session = weakref.ref(sess)
        return sess

    def _open_session(self, master, config, wait_for_checkpoint, max_wait_secs):
        if self._own_session_manager is not None:
            return self._open_with_own_manager(master, config, wait_for_checkpoint, max_wait_secs)
        text = session_manager_mod.text_of(master)
        try:
            native = self._native.open_session(text, session_manager_mod.config_bytes(config), float(max_wait_secs), bool(wait_for_checkpoint))
        except errors.OpError as error:
            raise session_manager_mod.raised(errors.explained(error, self._graph)) from None
        return session_lib.Session._of(native, self._graph, text, config)

    def _open_with_own_manager(self, master, config, wait_for_checkpoint, max_wait_secs):
        if not self._is_chief:
            return self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        sess = self._session_manager.prepare_session(
            master,
            init_op=self.init_op,
            saver=self.saver,
            checkpoint_dir=self._logdir,
            wait_for_checkpoint=wait_for_checkpoint,
            max_wait_secs=max_wait_secs,
            config=config,
            init_feed_dict=self._init_feed_dict,
            init_fn=self._init_fn,
        )
        self._native.write_graph()
        return sess

    def start_standard_services(self, sess):
        """Starts the threads that save the model and record summaries and speed; gives a list of them."""
        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services. Because only chief supervisors can write events.")
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        self._native.start_standard_services(sess._native)
        names = []
        if self._summary_writer is not None and self._save_summaries_secs:
            names += ["SVSummaryThread"] * (self._summary_op is not None) + ["SVStepCounterThread"] * (self._global_step is not None)
        if self._saver is not None and self._save_model_secs:
            names.append("SVTimerCheckpointThread")
        return [_Service(name, self._coord) for name in names]

    def start_queue_runners(self, sess, queue_runners=None):
        """Starts the threads of queue runners, those of the graph if none are given."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        threads = []
        for runner in queue_runners:
            threads.extend(runner.create_threads(sess, coord=self._coord, daemon=True, start=True))
        return threads

    @contextlib.contextmanager
    def managed_session(self, master="", config=None, start_standard_services=True, close_summary_writer=True):
        """A session for a `with` block, after which all is stopped and closed. The end of an input is no error."""
        try:
            sess = self.prepare_or_wait_for_session(master=master, config=config, start_standard_services=start_standard_services)
            yield sess
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                # The error of the block, or of the first thread that failed, is raised here.
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                try:
                    sess.close()
                except Exception:  # the servers may be gone
                    pass

    # ---- threads

    def loop(self, timer_interval_secs, target, args=None, kwargs=None):
        """Starts a thread that calls `target` every so many seconds, or all the time."""
        looper = LooperThread(self._coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def stop(self, threads=None, close_summary_writer=True, ignore_live_threads=False):
        """Stops all threads and waits for them; raises the error of the first that failed."""
        self._coord.request_stop()
        self._close_under_stuck_runners()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer:
                from tensorfleet.protobuf import SessionLog

                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()

    def _close_under_stuck_runners(self):
        """A thread of the library may wait for what never comes, such as the gradient of a replica that has ended: its session ends."""
        threads = self._coord._registered_threads
        deadline = time.monotonic() + _STUCK_SECS
        while time.monotonic() < deadline and any(thread.is_alive() for thread in threads):
            self._coord._native.wait_for_stop(0)
            time.sleep(0.005)
        alive = [thread for thread in threads if thread.is_alive()]
        session = self._session() if self._session is not None else None
        if alive and session is not None and not any(isinstance(thread, threading.Thread) for thread in alive):
            session.close()

    def request_stop(self, ex=None):
        self._coord.request_stop(ex=ex)

    def should_stop(self):
        return self._coord.should_stop()

    def stop_on_exception(self):
        return self._coord.stop_on_exception()

    def wait_for_stop(self):
        self._coord.wait_for_stop()

    def summary_computed(self, sess, summary, global_step=None):
        """Records a summary that the program computed itself."""
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = training_util.global_step(sess, self.global_step)
        self._summary_writer.add_summary(summary, global_step)

    # ---- the names before TensorFlow 1.0

    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed
