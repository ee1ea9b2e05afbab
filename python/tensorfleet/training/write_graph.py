"""`tf.train.write_graph`: a graph as a file, in text or binary form."""

import os
import tempfile

from tensorfleet.framework.export import export


def _atomic_write(path, content):
    directory = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=os.path.basename(path) + ".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@export("train.write_graph", "io.write_graph")
def write_graph(graph_or_graph_def, logdir, name, as_text=True):
    """Writes a graph, or any message, to `logdir/name`, and gives that path."""
    from tensorfleet.protobuf import text_format

    message = graph_or_graph_def.as_graph_def() if hasattr(graph_or_graph_def, "as_graph_def") else graph_or_graph_def
    logdir = os.fspath(logdir)
    if logdir:
        os.makedirs(logdir, exist_ok=True)
    path = os.path.join(logdir, name)
    content = text_format.MessageToString(message).encode("utf-8") if as_text else message.SerializeToString()
    _atomic_write(path, content)
    return path
