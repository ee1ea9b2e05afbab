"""`tf.py_func`: nodes that call Python functions.

A node carries a token. The process that runs it, the client's or an in-process server's, finds the function under the token in its
own interpreter.
"""

import itertools
import threading
import weakref

import numpy as np

from tensorfleet.framework import dtypes, gen, stacks
from tensorfleet.framework.export import export
from tensorfleet.framework.operation import Operation

_lock = threading.Lock()
_numbers = itertools.count()
#: Token -> function. The graphs that have a function's nodes keep it alive.
_functions = weakref.WeakValueDictionary()


def _register(function):
    with _lock:
        token = f"pyfunc_{next(_numbers)}"
        _functions[token] = function
    return token


class _Kept:
    """A function that a table can hold weakly, whatever kind of callable it is."""

    def __init__(self, function):
        self.function = function


def _as_array(value):
    array = np.asarray(value, order="C")
    if array.dtype.kind == "S" and array is not value:
        return np.asarray(value, order="C", dtype=object)
    if array.dtype.kind == "U":
        return np.vectorize(lambda text: text.encode("utf-8"), otypes=[object])(array).reshape(array.shape)
    return array


def call_registered(token, arguments, expected):
    """Calls a function for a node: its results as arrays, each with the number of its dtype."""
    kept = _functions.get(token)
    if kept is None:
        raise ValueError(f"callback {token} is not found")
    result = kept.function(*arguments)
    if not expected and result is None:
        return []
    if isinstance(result, bytes):
        result = [result]
    values = result if isinstance(result, (list, tuple)) else [result]
    arrays = [_as_array(value) for value in values]
    return [(array, _number(array)) for array in arrays]


def _number(array):
    if array.dtype.kind in "OSU":
        if not all(isinstance(item, (bytes, str)) for item in array.ravel().tolist()):
            raise NotImplementedError(f"Unsupported object type {type(array.ravel()[0]).__name__ if array.size else 'object'}")
        return dtypes.string.as_datatype_enum
    return dtypes.as_dtype(array.dtype).as_datatype_enum


def _keep(kept):
    """Keeps a function as long as the graph that calls it, also if that is a graph around the current one."""
    graph = stacks.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    graph.__dict__.setdefault("_py_funcs_used_in_graph", []).append(kept)


def _py_func(func, inp, Tout, stateful, name):
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func of type {type(func)}")
    is_list = isinstance(Tout, (list, tuple))
    types = list(Tout) if is_list else [Tout]
    kept = _Kept(func)
    token = _register(kept)
    _keep(kept)
    make = gen.PyFunc if stateful else gen.PyFuncStateless
    result = make(list(inp), token=token, Tout=types, name=name)
    if isinstance(result, Operation):
        return result
    return result if is_list else result[0]


@export("py_func")
def py_func(func, inp, Tout, stateful=True, name=None):
    """What a Python function makes of arrays, each time the graph runs."""
    return _py_func(func, inp, Tout, stateful, name)


@export("numpy_function")
def numpy_function(func, inp, Tout, name=None):
    """The same; the function is taken to have effects."""
    return _py_func(func, inp, Tout, True, name)
