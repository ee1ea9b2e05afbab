"""Hooks that save, summarise and measure. Given as they are, hooks of the library do their work; derived ones run in Python."""

from tensorfleet import _native
from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training import training_util
from tensorfleet.training.hook_timers import SecondOrStepTimer, _global_step_read
from tensorfleet.training.session_run_hook import SessionRunArgs, SessionRunHook


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
