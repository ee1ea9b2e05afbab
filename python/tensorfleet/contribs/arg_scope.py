"""`tf.contrib.framework.arg_scope`: default values for the arguments of functions."""

import contextlib
import functools
import inspect
import threading

from tensorfleet.framework.export import export


class _Stack(threading.local):
    def __init__(self):
        self.scopes = [{}]


_STACK = _Stack()
#: Function's key -> names of its keyword arguments.
_DECORATED = {}


def _key(function):
    return getattr(function, "_key_op", str(function))


@export("contrib.framework.add_arg_scope", "contrib.slim.add_arg_scope")
def add_arg_scope(func):
    """Makes a function one whose arguments can have defaults by `arg_scope`."""

    @functools.wraps(func)
    def func_with_args(*args, **kwargs):
        scope = _STACK.scopes[-1]
        defaults = scope.get(_key(func_with_args))
        if defaults:
            kwargs = {**defaults, **kwargs}
        return func(*args, **kwargs)

    func_with_args._key_op = _key(func)
    parameters = inspect.signature(func).parameters.values()
    _DECORATED[_key(func)] = tuple(parameter.name for parameter in parameters if parameter.default is not parameter.empty)
    return func_with_args


@export("contrib.framework.arg_scope", "contrib.slim.arg_scope")
@contextlib.contextmanager
def arg_scope(list_ops_or_scope, **kwargs):
    """Defaults for the arguments of these functions, or a scope that was kept."""
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        entered = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        entered = dict(_STACK.scopes[-1])
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{(op.__module__, op.__name__)} is not decorated with @add_arg_scope")
            entered[_key(op)] = {**entered.get(_key(op), {}), **kwargs}
    _STACK.scopes.append(entered)
    try:
        yield entered
    finally:
        _STACK.scopes.pop()


@export("contrib.framework.has_arg_scope", "contrib.slim.has_arg_scope")
def has_arg_scope(func):
    """Whether a function can have defaults."""
    return _key(func) in _DECORATED


@export("contrib.framework.arg_scoped_arguments", "contrib.slim.arg_scoped_arguments")
def arg_scoped_arguments(func):
    """The arguments of a function that can have defaults."""
    if not has_arg_scope(func):
        raise ValueError(f"{func} is not decorated with @add_arg_scope")
    return _DECORATED[_key(func)]


@export("contrib.framework.current_arg_scope", "contrib.slim.current_arg_scope")
def current_arg_scope():
    """The defaults that hold now."""
    return _STACK.scopes[-1]
