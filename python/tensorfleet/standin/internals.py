"""Helpers of TensorFlow's own code that copied programs import: decorators, `inspect` under another name."""

import collections
import contextlib
import functools

contextmanager = contextlib.contextmanager


def tf_export(*names, **options):
    """Leaves a function as it is: names below `tf.` are not changed from outside."""
    return lambda thing: thing


keras_export = estimator_export = tf_export


def deprecated(date=None, instructions=None, warn_once=True):
    """Leaves a function as it is."""
    return lambda function: function


def deprecated_args(date=None, instructions=None, *names, **options):
    """Leaves a function as it is."""
    return lambda function: function


deprecated_arg_values = deprecated_args
deprecated_endpoints = deprecated_args


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """The value of an argument that has an old and a new name."""
    if old_value is not None:
        if new_value is not None:
            raise ValueError("Cannot specify both '%s' and '%s'" % (old_name, new_name))
        return old_value
    return new_value


def keyword_args_only(function):
    """Refuses arguments without a name."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if args:
            raise ValueError("Must use keyword args to call %s." % function.__name__)
        return function(**kwargs)

    return wrapper


def make_decorator(target, decorator_func, decorator_name=None, decorator_doc="", decorator_argspec=None):
    """Makes a function look like the one it wraps."""
    return functools.update_wrapper(decorator_func, target)


def unwrap(maybe_decorated):
    """The decorators of a function (none that we know of) and the function inside."""
    import inspect

    return [], inspect.unwrap(maybe_decorated)


def remove_undocumented(module_name, allowed_exception_list=None, doc_string_modules=None):
    """Leaves a module as it is."""


def make_all(module_name, doc_string_modules=None):
    """The public names of a module."""
    import sys

    return sorted(name for name in dir(sys.modules[module_name]) if not name.startswith("_"))


ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(function):
    """The arguments of a function in the form Python 2 had."""
    import inspect

    spec = inspect.getfullargspec(inspect.unwrap(function))
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def internal_convert_to_tensor(value, dtype=None, name=None, as_ref=False, preferred_dtype=None, ctx=None, accept_symbolic_tensors=True, accept_composite_tensors=False):
    """`tf.convert_to_tensor` with the arguments TensorFlow's own code uses."""
    from tensorfleet.framework import ops

    return ops.convert_to_tensor(value, dtype=dtype, name=name, preferred_dtype=preferred_dtype, as_ref=as_ref)


def is_resource_variable(var):
    """Whether a variable is kept as a resource."""
    return getattr(getattr(getattr(var, "op", None), "type", None), "startswith", lambda _: False)("VarHandle")
