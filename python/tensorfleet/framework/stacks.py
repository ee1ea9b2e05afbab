"""The default graph and the default session of each thread."""

import contextlib
import threading

from tensorfleet.framework.export import export


class _Stack(threading.local):
    def __init__(self):
        self.items = []

    @contextlib.contextmanager
    def entered(self, item, enforce_nesting=True):
        self.items.append(item)
        try:
            yield item
        finally:
            if self.items:
                if not enforce_nesting:
                    if item in self.items:
                        self.items.remove(item)
                elif self.items[-1] is not item:
                    raise AssertionError(f"Nesting violated for default stack of {type(item)} objects")
                else:
                    self.items.pop()


GRAPHS = _Stack()
SESSIONS = _Stack()
_global_default_graph = None
_lock = threading.Lock()


@export("get_default_graph")
def get_default_graph():
    """The graph that nodes of this thread are added to."""
    if GRAPHS.items:
        return GRAPHS.items[-1]
    global _global_default_graph
    if _global_default_graph is None:
        from tensorfleet.framework.graph import Graph

        with _lock:
            if _global_default_graph is None:
                _global_default_graph = Graph()
    return _global_default_graph


@export("reset_default_graph")
def reset_default_graph():
    """Forgets the default graph: the next node begins a new one."""
    if GRAPHS.items:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and "
            "create a new graph."
        )
    global _global_default_graph
    _global_default_graph = None


@export("get_default_session")
def get_default_session():
    """The innermost session that this thread entered, if there is one."""
    return SESSIONS.items[-1] if SESSIONS.items else None


def default_session(session):
    return SESSIONS.entered(session, getattr(session, "_enforce_nesting", True))


def _session_for(graph, session, what):
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(
                f"Cannot {what} using `{'eval()' if 'evaluate' in what else 'run()'}`: No default session is registered. "
                f"Use `with sess.as_default()` or pass an explicit session to "
                f"`{'eval(session=sess)' if 'evaluate' in what else 'run(session=sess)'}`"
            )
        if session.graph is not graph:
            raise ValueError(
                "Cannot use the default session to "
                f"{what}: the tensor's graph is different from the session's graph. Pass an explicit session to the call."
            )
    elif session.graph is not graph:
        raise ValueError(f"Cannot use the given session to {what}: the tensor's graph is different from the session's graph.")
    return session


def eval_using_default_session(tensors, feed_dict, graph, session=None):
    return _session_for(graph, session, "evaluate tensor").run(tensors, feed_dict)


def run_using_default_session(operation, feed_dict, graph, session=None):
    _session_for(graph, session, "execute operation").run(operation, feed_dict)
