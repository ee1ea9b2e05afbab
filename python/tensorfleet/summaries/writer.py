"""`FileWriter`: writes summaries, graphs and what else a run tells into event files."""

import os
import threading
import time
import warnings

from tensorfleet import _native
from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging


def _message(name):
    from tensorfleet import protobuf

    return getattr(protobuf, name)


class SummaryToEventTransformer:
    """Makes events of summaries, graphs and logs, and gives them to `event_writer.add_event`."""

    def __init__(self, event_writer, graph=None, graph_def=None):
        self.event_writer = event_writer
        self._session_run_tags = {}
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            if graph is not None:
                from tensorfleet.training import meta_graph

                self.add_meta_graph(meta_graph.create_meta_graph_def(graph_def=graph_def or graph.as_graph_def(add_shapes=True), graph=graph))

    def add_summary(self, summary, global_step=None):
        """Adds a `Summary`, or the bytes of one, such as a summary op gives."""
        if isinstance(summary, bytes):
            read = _message("Summary")()
            read.ParseFromString(summary)
            summary = read
        elif isinstance(summary, str):
            read = _message("Summary")()
            read.ParseFromString(summary.encode("latin-1"))
            summary = read
        self._add_event(_message("Event")(summary=summary), global_step)

    def add_session_log(self, session_log, global_step=None):
        self._add_event(_message("Event")(session_log=session_log), global_step)

    def _add_graph_def(self, graph_def, global_step=None):
        self._add_event(_message("Event")(graph_def=graph_def.SerializeToString()), global_step)

    def add_graph(self, graph, global_step=None, graph_def=None):
        """Adds a graph for TensorBoard to draw."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, ops.Graph) or isinstance(graph_def, ops.Graph):
            if not isinstance(graph, ops.Graph):
                logging.warning("When passing a `Graph` object, please use the `graph` named argument instead of `graph_def`.")
                graph = graph_def
            self._add_graph_def(graph.as_graph_def(add_shapes=True), global_step)
        elif isinstance(graph, _message("GraphDef")) or isinstance(graph_def, _message("GraphDef")):
            logging.warning("Passing a `GraphDef` to the SummaryWriter is deprecated. Pass a `Graph` object instead, such as `sess.graph`.")
            self._add_graph_def(graph if isinstance(graph, _message("GraphDef")) else graph_def, global_step)
        else:
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")

    def add_meta_graph(self, meta_graph_def, global_step=None):
        if not isinstance(meta_graph_def, _message("MetaGraphDef")):
            raise TypeError("meta_graph_def must be type MetaGraphDef, saw type: %s" % type(meta_graph_def))
        self._add_event(_message("Event")(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata, tag, global_step=None):
        """Adds the record of one run, under a tag that no other has."""
        if tag in self._session_run_tags:
            raise ValueError("The provided tag was already used for this event type")
        self._session_run_tags[tag] = True
        tagged = _message("TaggedRunMetadata")(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add_event(_message("Event")(tagged_run_metadata=tagged), global_step)

    def _add_event(self, event, step):
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)


class EventFileWriter:
    """An event file of the library, which a thread of its own writes."""

    def __init__(self, logdir, max_queue=10, flush_secs=120, filename_suffix=None, native=None):
        self._logdir = os.fspath(logdir) if hasattr(logdir, "__fspath__") else compat.as_text(logdir)
        # TensorFlow takes a queue of 0 as one without a bound.
        queue = max_queue if max_queue > 0 else 1 << 30
        suffix = "" if not filename_suffix else compat.as_text(filename_suffix)
        self._native = native if native is not None else _native.FileWriter(self._logdir, queue, float(flush_secs), suffix)
        self._closed = False

    def get_logdir(self):
        return self._logdir

    def reopen(self):
        self._native.reopen()
        self._closed = False

    def add_event(self, event):
        if not self._closed and self._native.is_open():
            self._native.add_event(event.SerializeToString())

    def flush(self):
        if self._native.is_open():
            self._native.flush()

    def close(self):
        self._closed = True
        self._native.close()


@export("summary.FileWriter", "train.SummaryWriter")
class FileWriter(SummaryToEventTransformer):
    """Writes events into a file of a directory, where TensorBoard finds them."""

    def __init__(self, logdir, graph=None, max_queue=10, flush_secs=120, graph_def=None, filename_suffix=None, session=None):
        if session is not None:
            raise RuntimeError("FileWriter writes files only; writing through summary ops of a session (session=...) is not offered")
        self._closed = False
        super().__init__(EventFileWriter(logdir, max_queue, flush_secs, filename_suffix), graph, graph_def)

    @classmethod
    def _shared(cls, logdir, graph):
        """The writer of a directory that hooks of the library use, too."""
        made = object.__new__(cls)
        made._closed = False
        SummaryToEventTransformer.__init__(made, EventFileWriter(logdir, native=_native.FileWriter.shared(str(logdir))), graph)
        return made

    def __enter__(self):
        return self

    def __exit__(self, unused_type, unused_value, unused_traceback):
        self.close()

    def get_logdir(self):
        return self.event_writer.get_logdir()

    def _warn_if_event_writer_is_closed(self):
        if self._closed:
            warnings.warn("Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is explicitly reopened.")

    def _add_event(self, event, step):
        self._warn_if_event_writer_is_closed()
        super()._add_event(event, step)

    def add_event(self, event):
        self._warn_if_event_writer_is_closed()
        self.event_writer.add_event(event)

    def flush(self):
        self._warn_if_event_writer_is_closed()
        self.event_writer.flush()

    def close(self):
        self.event_writer.close()
        self._closed = True

    def reopen(self):
        self.event_writer.reopen()
        self._closed = False


@export("summary.FileWriterCache")
class FileWriterCache:
    """The writers of this process, one for each directory."""

    _cache = {}
    _lock = threading.RLock()

    @staticmethod
    def clear():
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache = {}

    @staticmethod
    def get(logdir):
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter._shared(logdir, ops.get_default_graph())
            return FileWriterCache._cache[logdir]


@export("train.summary_iterator")
def summary_iterator(path):
    """The events of an event file, one after the other."""
    reader = _native.RecordReader(os.fspath(path), "")
    Event = _message("Event")
    while True:
        record = reader.next()
        if record is None:
            return
        yield Event.FromString(record)
