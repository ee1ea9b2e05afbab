"""`tensorflow.python.eager.context`: programs ask whether they run eagerly. They never do."""


def executing_eagerly():
    """False: a program builds a graph and runs it in a session."""
    return False


in_eager_mode = executing_eagerly


def in_graph_mode():
    """True."""
    return True
