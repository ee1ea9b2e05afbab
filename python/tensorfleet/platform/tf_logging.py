"""`tf.logging`: the logger "tensorflow", which writes `LEVEL:tensorflow:message` to the standard error."""

import logging as _logging
import sys as _sys
import threading

from tensorfleet.framework.export import export, export_values

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL
_LEVEL_NAMES = {FATAL: "FATAL", ERROR: "ERROR", WARN: "WARN", INFO: "INFO", DEBUG: "DEBUG"}
_lock = threading.Lock()
_logger = None
_counts: dict = {}


class _Standard:
    """The standard error of the moment: programs and tests replace it."""

    def write(self, text):
        _sys.stderr.write(text)

    def flush(self):
        _sys.stderr.flush()


@export("get_logger")
def get_logger():
    """Python's logger behind all this. It is set up the first time somebody logs."""
    global _logger
    if _logger is not None:
        return _logger
    with _lock:
        if _logger is None:
            logger = _logging.getLogger("tensorflow")
            # A program that has set up logging itself gets our messages through its own handlers, once.
            if not _logging.getLogger().handlers and not logger.handlers:
                # In a shell people look at what is printed; elsewhere only warnings are worth it.
                logger.setLevel(INFO if hasattr(_sys, "ps1") or _sys.flags.interactive else WARN)
                handler = _logging.StreamHandler(_Standard())
                handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
                logger.addHandler(handler)
            elif logger.level == _logging.NOTSET:
                logger.setLevel(WARN)
            _logger = logger
    return _logger


@export("logging.log")
def log(level, msg, *args, **kwargs):
    """Logs a message at a level."""
    get_logger().log(level, msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.debug")
def debug(msg, *args, **kwargs):
    """Logs a message for those who debug."""
    get_logger().debug(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.info")
def info(msg, *args, **kwargs):
    """Logs what happens."""
    get_logger().info(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.warning")
def warning(msg, *args, **kwargs):
    """Logs a warning."""
    get_logger().warning(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.warn")
def warn(msg, *args, **kwargs):
    """Logs a warning."""
    get_logger().warning(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.error")
def error(msg, *args, **kwargs):
    """Logs an error."""
    get_logger().error(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.fatal")
def fatal(msg, *args, **kwargs):
    """Logs an error that ends something. The program goes on."""
    get_logger().fatal(msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.vlog")
def vlog(level, msg, *args, **kwargs):
    """Logs a message at a level."""
    get_logger().log(level, msg, *args, **dict({"stacklevel": 2}, **kwargs))


@export("logging.TaskLevelStatusMessage")
def TaskLevelStatusMessage(msg):
    """Logs a message as an error."""
    error(msg)


@export("logging.flush")
def flush():
    """Does nothing: every message is written at once."""


def _count_here():
    """How often the calling line has come here before."""
    caller = _sys._getframe(2)
    place = (caller.f_code.co_filename, caller.f_lineno)
    with _lock:
        _counts[place] = _counts.get(place, -1) + 1
        return _counts[place]


@export("logging.log_every_n")
def log_every_n(level, msg, n, *args):
    """Logs the first of every `n` times that this line is reached."""
    log_if(level, msg, not _count_here() % n, *args)


@export("logging.log_first_n")
def log_first_n(level, msg, n, *args):
    """Logs the first `n` times that this line is reached."""
    log_if(level, msg, _count_here() < n, *args)


@export("logging.log_if")
def log_if(level, msg, condition, *args):
    """Logs a message if the condition holds."""
    if condition:
        get_logger().log(level, msg, *args)


@export("logging.get_verbosity")
def get_verbosity():
    """The lowest level that is logged."""
    return get_logger().getEffectiveLevel()


@export("logging.set_verbosity")
def set_verbosity(v):
    """Sets the lowest level that is logged."""
    get_logger().setLevel(v)


export_values(__name__, {"logging." + name: name for name in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")})
