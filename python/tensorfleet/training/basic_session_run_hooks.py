"""The hooks of TensorFlow.

Hooks of the library do the work of those that count, save and summarise, if a program gives them as they are. A class that a program derives from
one of them is run in Python, by the short methods here.
"""

import time

import numpy as np

from tensorfleet import _native
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training import training_util
from tensorfleet.training.session_run_hook import SessionRunArgs, SessionRunHook


class _HookTimer:
    """When a hook acts that does not act at every step."""

    def reset(self):
        raise NotImplementedError

    def should_trigger_for_step(self, step):
        raise NotImplementedError

    def update_last_triggered_step(self, step):
        raise NotImplementedError

    def last_triggered_step(self):
        raise NotImplementedError


@export("train.SecondOrStepTimer", "estimator.SecondOrStepTimer")
class SecondOrStepTimer(_HookTimer):
    """Acts every so many seconds or steps, the first time at once."""

    def __init__(self, every_secs=None, every_steps=None):
        self.reset()
        self._every_secs = every_secs
        self._every_steps = every_steps
        if self._every_secs is None and self._every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if (self._every_secs is not None) and (self._every_steps is not None):
            raise ValueError("Can not provide both every_secs and every_steps.")

    def reset(self):
        self._last_triggered_step = None
        self._last_triggered_time = None

    def should_trigger_for_step(self, step):
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None and time.time() >= self._last_triggered_time + self._every_secs:
            return True
        return self._every_steps is not None and step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step):
        now = time.time()
        if self._last_triggered_time is None:
            elapsed = None, None
        else:
            elapsed = now - self._last_triggered_time, step - self._last_triggered_step
        self._last_triggered_time, self._last_triggered_step = now, step
        return elapsed

    def last_triggered_step(self):
        return self._last_triggered_step


class NeverTriggerTimer(_HookTimer):
    """Never acts."""

    def reset(self):
        """Nothing is remembered."""

    def should_trigger_for_step(self, step):
        return False

    def update_last_triggered_step(self, step):
        return None, None

    def last_triggered_step(self):
        return None


def _global_step_read(hook):
    step = training_util._get_or_create_global_step_read()
    if step is None:
        raise RuntimeError("Global step should be created to use %s." % hook)
    return step


def _as_graph_element(obj):
    graph = ops.get_default_graph()
    if not isinstance(obj, str):
        if not hasattr(obj, "graph") or obj.graph != graph:
            raise ValueError("Passed %s should have graph attribute that is equal to current graph %s." % (obj, graph))
        return obj
    if ":" in obj:
        return graph.as_graph_element(obj)
    element = graph.as_graph_element(obj + ":0")
    try:
        graph.as_graph_element(obj + ":1")
    except (KeyError, ValueError):
        return element
    raise ValueError("Name %s is ambiguous, as this `Operation` has multiple outputs (at least 2)." % obj)


@export("train.LoggingTensorHook", "estimator.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Logs values every so many runs or seconds, or at the end."""

    def __init__(self, tensors, every_n_iter=None, every_n_secs=None, at_end=False, formatter=None):
        only_log_at_end = at_end and (every_n_iter is None) and (every_n_secs is None)
        if not only_log_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError("invalid every_n_iter=%s." % every_n_iter)
        if not isinstance(tensors, dict):
            self._tag_order = tensors
            tensors = {item: item for item in tensors}
        else:
            self._tag_order = sorted(tensors.keys())
        self._tensors = tensors
        self._formatter = formatter
        self._timer = NeverTriggerTimer() if only_log_at_end else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        self._log_at_end = at_end

    def begin(self):
        self._timer.reset()
        self._iter_count = 0
        self._current_tensors = {tag: _as_graph_element(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context):
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def _log_tensors(self, tensor_values):
        with np.printoptions(suppress=True):
            elapsed_secs, _ = self._timer.update_last_triggered_step(self._iter_count)
            if self._formatter:
                logging.info(self._formatter(tensor_values))
                return
            stats = ["%s = %s" % (tag, tensor_values[tag]) for tag in self._tag_order]
            if elapsed_secs is not None:
                logging.info("%s (%.3f sec)", ", ".join(stats), elapsed_secs)
            else:
                logging.info("%s", ", ".join(stats))

    def after_run(self, run_context, run_values):
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session):
        if self._log_at_end:
            self._log_tensors(session.run(self._current_tensors))


def get_or_create_steps_per_run_variable():
    """How many steps one run takes: one, because loops on devices of other kinds are not here."""
    return 1


@export("train.StopAtStepHook", "estimator.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Ends training when the global step has reached a number, or has gone on by one."""

    def __init__(self, num_steps=None, last_step=None):
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self):
        self._global_step_tensor = training_util.get_global_step()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use StopAtStepHook.")

    def _library_hook(self, graph):
        self.begin()
        step = graph.as_graph_element(self._global_step_tensor)
        return _native.LibraryHook.stop_at_step(graph._native, step._id, self._num_steps, self._last_step)

    def after_create_session(self, session, coord):
        if self._last_step is None:
            self._last_step = session.run(self._global_step_tensor) + self._num_steps

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context, run_values):
        global_step = run_values.results + 1
        if global_step >= self._last_step:
            # The step that the run read may be older than what others have reached.
            if run_context.session.run(self._global_step_tensor) >= self._last_step:
                run_context.request_stop()


@export("train.CheckpointSaverListener", "estimator.CheckpointSaverListener")
class CheckpointSaverListener:
    """Something that happens around the saves of a `CheckpointSaverHook`; programs derive from it."""

    def begin(self):
        """Called once before there is a session."""

    def before_save(self, session, global_step_value):
        """Called before a save."""

    def after_save(self, session, global_step_value):
        """Called after a save; `True` ends training."""

    def end(self, session, global_step_value):
        """Called when the session ends."""


class _Listener:
    """A listener as the library calls it."""

    def __init__(self, listener, sessions):
        self._listener, self._sessions = listener, sessions

    def begin(self, session, step):
        self._listener.begin()

    def before_save(self, session, step):
        self._listener.before_save(self._sessions(), step)

    def after_save(self, session, step):
        return bool(self._listener.after_save(self._sessions(), step))

    def end(self, session, step):
        self._listener.end(self._sessions(), step)


@export("train.CheckpointSaverHook", "estimator.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Saves the model every so many steps or seconds, when a session begins and when it ends."""

    def __init__(self, checkpoint_dir, save_secs=None, save_steps=None, saver=None, checkpoint_basename="model.ckpt", scaffold=None, listeners=None):
        import os

        logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._checkpoint_dir = os.fspath(checkpoint_dir)
        self._save_path = os.path.join(self._checkpoint_dir, checkpoint_basename)
        self._checkpoint_basename = checkpoint_basename
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = listeners or []
        self._steps_per_run = 1

    def _set_steps_per_run(self, steps_per_run):
        self._steps_per_run = steps_per_run

    def begin(self):
        self._open()
        for listener in self._listeners:
            listener.begin()

    def _open(self):
        from tensorfleet.summaries.writer import FileWriterCache

        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        self._global_step_tensor = _global_step_read("CheckpointSaverHook")

    def _library_hook(self, graph, sessions):
        self._open()
        step = graph.as_graph_element(self._global_step_tensor)
        listeners = [_Listener(listener, sessions) for listener in self._listeners]
        return _native.LibraryHook.checkpoint_saver(
            graph._native,
            step._id,
            self._timer._every_steps,
            self._timer._every_secs,
            self._checkpoint_dir,
            self._checkpoint_basename,
            lambda: self._get_saver()._library_saver(),
            listeners,
        )

    def after_create_session(self, session, coord):
        from tensorfleet.training import meta_graph
        from tensorfleet.training.write_graph import write_graph

        global_step = session.run(self._global_step_tensor)
        graph = ops.get_default_graph()
        write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")
        saver_def = self._get_saver().saver_def if self._get_saver() else None
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(meta_graph.create_meta_graph_def(graph_def=graph.as_graph_def(add_shapes=True), saver_def=saver_def))
        self._save(session, global_step)
        self._timer.update_last_triggered_step(global_step)

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context, run_values):
        stale_global_step = run_values.results
        if self._timer.should_trigger_for_step(stale_global_step + self._steps_per_run):
            global_step = run_context.session.run(self._global_step_tensor)
            if self._timer.should_trigger_for_step(global_step):
                self._timer.update_last_triggered_step(global_step)
                if self._save(run_context.session, global_step):
                    run_context.request_stop()

    def end(self, session):
        last_step = session.run(self._global_step_tensor)
        if last_step != self._timer.last_triggered_step():
            self._save(session, last_step)
        for listener in self._listeners:
            listener.end(session, last_step)

    def _save(self, session, step):
        """Saves; whether a listener wants training to end."""
        from tensorfleet.protobuf import SessionLog

        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=int(step))
        log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
        self._summary_writer.add_session_log(log, step)
        should_stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info("A CheckpointSaverListener requested that training be stopped. listener: {}".format(listener))
                should_stop = True
        return should_stop

    def _get_saver(self):
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = ops.get_collection(ops.GraphKeys.SAVERS)
        if not savers:
            raise RuntimeError("No items in collection {}. Please add a saver to the collection or provide a saver or scaffold.".format(ops.GraphKeys.SAVERS))
        if len(savers) > 1:
            raise RuntimeError("More than one item in collection {}. Please indicate which one to use by passing it to the constructor.".format(ops.GraphKeys.SAVERS))
        self._saver = savers[0]
        return savers[0]


@export("train.StepCounterHook", "estimator.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Measures how many steps a second there are."""

    def __init__(self, every_n_steps=100, every_n_secs=None, output_dir=None, summary_writer=None):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._last_global_step = None
        self._steps_per_run = 1

    def _set_steps_per_run(self, steps_per_run):
        self._steps_per_run = steps_per_run

    def begin(self):
        if self._summary_writer is None and self._output_dir:
            from tensorfleet.summaries.writer import FileWriterCache

            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._global_step_tensor = _global_step_read("StepCounterHook")
        self._summary_tag = training_util.get_global_step().op.name + "/sec"

    def _library_hook(self, graph):
        if self._summary_writer is not None:
            return None
        self.begin()
        step = graph.as_graph_element(self._global_step_tensor)
        every = self._timer
        directory = None if not self._output_dir else str(self._output_dir)
        return _native.LibraryHook.step_counter(graph._native, step._id, every._every_steps, every._every_secs, directory)

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
        from tensorfleet.protobuf import Summary

        steps_per_sec = elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            value = Summary.Value(tag=self._summary_tag, simple_value=steps_per_sec)
            self._summary_writer.add_summary(Summary(value=[value]), global_step)
        logging.info("%s: %g", self._summary_tag, steps_per_sec)

    def after_run(self, run_context, run_values):
        stale_global_step = run_values.results
        if self._timer.should_trigger_for_step(stale_global_step + self._steps_per_run):
            global_step = run_context.session.run(self._global_step_tensor)
            if self._timer.should_trigger_for_step(global_step):
                elapsed_time, elapsed_steps = self._timer.update_last_triggered_step(global_step)
                if elapsed_time is not None:
                    self._log_and_record(elapsed_steps, elapsed_time, global_step)
        self._last_global_step = stale_global_step


@export("train.NanLossDuringTrainingError", "estimator.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """A loss was not a number."""

    def __str__(self):
        return "NaN loss during training."


@export("train.NanTensorHook", "estimator.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """Ends training when a value is not a number."""

    def __init__(self, loss_tensor, fail_on_nan_loss=True):
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context):
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context, run_values):
        if np.isnan(run_values.results):
            failure_message = "Model diverged with loss = NaN."
            if self._fail_on_nan_loss:
                logging.error(failure_message)
                raise NanLossDuringTrainingError
            logging.warning(failure_message)
            run_context.request_stop()


@export("train.SummarySaverHook", "estimator.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Records summaries every so many steps or seconds."""

    def __init__(self, save_steps=None, save_secs=None, output_dir=None, summary_writer=None, scaffold=None, summary_op=None):
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self):
        if self._summary_writer is None and self._output_dir:
            from tensorfleet.summaries.writer import FileWriterCache

            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._next_step = None
        self._global_step_tensor = _global_step_read("SummarySaverHook")

    def _library_hook(self, graph):
        if self._summary_writer is not None or not self._output_dir or isinstance(self._summary_op, list):
            return None
        self.begin()

        def summary_op():
            found = self._get_summary_op()
            return None if found is None else graph.as_graph_element(found[0])._id

        step = graph.as_graph_element(self._global_step_tensor)
        every = self._timer
        return _native.LibraryHook.summary_saver(graph._native, step._id, every._every_steps, every._every_secs, str(self._output_dir), summary_op)

    def before_run(self, run_context):
        self._request_summary = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        requests = {"global_step": self._global_step_tensor}
        if self._request_summary and self._get_summary_op() is not None:
            requests["summary"] = self._get_summary_op()
        return SessionRunArgs(requests)

    def after_run(self, run_context, run_values):
        from tensorfleet.protobuf import SessionLog

        if not self._summary_writer:
            return
        global_step = run_values.results["global_step"] + 1
        if self._next_step is None or self._request_summary:
            global_step = run_context.session.run(self._global_step_tensor)
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), global_step)
        if self._request_summary:
            self._timer.update_last_triggered_step(global_step)
            for summary in run_values.results.get("summary", ()):
                self._summary_writer.add_summary(summary, global_step)
        self._next_step = global_step + 1

    def end(self, session=None):
        if self._summary_writer:
            self._summary_writer.flush()

    def _get_summary_op(self):
        summary_op = self._summary_op
        if summary_op is None and self._scaffold is not None and self._scaffold.summary_op is not None:
            summary_op = self._scaffold.summary_op
        if summary_op is None:
            return None
        return summary_op if isinstance(summary_op, list) else [summary_op]


@export("train.GlobalStepWaiterHook", "estimator.GlobalStepWaiterHook")
class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first run until others have reached a global step."""

    def __init__(self, wait_until_step):
        self._wait_until_step = wait_until_step

    def begin(self):
        self._worker_is_started = False
        self._global_step_tensor = _global_step_read("_GlobalStepWaiterHook")

    def _library_hook(self, graph):
        self.begin()
        step = graph.as_graph_element(self._global_step_tensor)
        return _native.LibraryHook.global_step_waiter(graph._native, step._id, int(self._wait_until_step))

    def before_run(self, run_context):
        if self._worker_is_started:
            return None
        if self._wait_until_step <= 0:
            self._worker_is_started = True
            return None
        logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        last_logged_step = 0
        while True:
            current_step = run_context.session.run(self._global_step_tensor)
            if current_step >= self._wait_until_step:
                self._worker_is_started = True
                return None
            if current_step - last_logged_step > 1000:
                logging.info("Waiting for global step %d before starting training. Current step is %d.", self._wait_until_step, current_step)
                last_logged_step = current_step
            time.sleep(0.5)


@export("train.FinalOpsHook", "estimator.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Computes values when the session ends."""

    def __init__(self, final_ops, final_ops_feed_dict=None):
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values = None

    @property
    def final_ops_values(self):
        return self._final_ops_values

    def end(self, session):
        if self._final_ops is not None:
            try:
                self._final_ops_values = session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)
            except (errors.OutOfRangeError, StopIteration) as error:
                logging.warning("An OutOfRangeError or StopIteration exception is raised by the code in FinalOpsHook. This typically means the Ops running by the FinalOpsHook have a dependency back to some input source, which should not happen.")
                raise error


@export("train.FeedFnHook", "estimator.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feeds what a function gives before each run."""

    def __init__(self, feed_fn):
        self.feed_fn = feed_fn

    def before_run(self, run_context):
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


@export("train.ProfilerHook", "estimator.ProfilerHook")
class ProfilerHook(SessionRunHook):
    """Records runs every so many steps or seconds, as files that a browser shows."""

    def __init__(self, save_steps=None, save_secs=None, output_dir="", show_dataflow=True, show_memory=False):
        import os

        self._output_file = os.path.join(output_dir, "timeline-{}.json")
        from tensorfleet.summaries.writer import FileWriterCache

        self._file_writer = FileWriterCache.get(output_dir) if output_dir else None
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self):
        self._next_step = None
        self._global_step_tensor = _global_step_read("ProfilerHook")

    def before_run(self, run_context):
        from tensorfleet.protobuf import RunOptions

        self._request_summary = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._request_summary else None
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=options)

    def after_run(self, run_context, run_values):
        stale_global_step = run_values.results["global_step"]
        if self._next_step is None:
            # The first steps are not like the others.
            self._timer.update_last_triggered_step(stale_global_step)
        global_step = stale_global_step + 1
        if self._request_summary:
            global_step = run_context.session.run(self._global_step_tensor)
            self._timer.update_last_triggered_step(global_step)
            self._save(global_step, self._output_file.format(global_step), run_values.run_metadata.step_stats)
            if self._file_writer is not None:
                self._file_writer.add_run_metadata(run_values.run_metadata, "step_%d" % global_step)
        self._next_step = global_step + 1

    def _save(self, step, save_path, step_stats):
        from tensorfleet.client import timeline

        logging.info("Saving timeline for %d into '%s'.", step, save_path)
        with open(save_path, "w") as file:
            trace = timeline.Timeline(step_stats)
            file.write(trace.generate_chrome_trace_format(show_dataflow=self._show_dataflow, show_memory=self._show_memory))
