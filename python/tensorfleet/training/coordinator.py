"""`Coordinator`: ends a group of threads together, those of Python and those of the library."""

import contextlib
import sys
import threading
import time

from tensorfleet import _native
from tensorfleet.framework import errors
from tensorfleet.framework.export import export
from tensorfleet.platform import tf_logging as logging

#: The code of exceptions that are not of `tf.errors`.
_UNKNOWN = 2


@export("train.Coordinator")
class Coordinator:
    """Ends a group of threads together: any of them may request a stop, `join` waits for all and raises the first error."""

    def __init__(self, clean_stop_exception_types=None):
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean_stop_exception_types = tuple(clean_stop_exception_types)
        codes = [code for code, kind in errors._BY_CODE.items() if issubclass(kind, self._clean_stop_exception_types)]
        self._take(_native.Coordinator(codes))

    def _take(self, native):
        self._native = native
        self._lock = threading.Lock()
        self._exc_info_to_raise = None
        self._registered_threads = set()
        self._joined = False

    @classmethod
    def _of(cls, native):
        """A coordinator that the library made; no error is a clean end for it."""
        made = object.__new__(cls)
        made._clean_stop_exception_types = ()
        made._take(native)
        return made

    def _filter_exception(self, ex):
        kind, value = (ex[0], ex[1]) if isinstance(ex, tuple) else (type(ex), ex)
        if isinstance(value, self._clean_stop_exception_types) or (isinstance(kind, type) and issubclass(kind, self._clean_stop_exception_types)):
            return None
        return ex

    def request_stop(self, ex=None):
        """Asks all threads to end, because of an exception (or `sys.exc_info()`) if one is given. Only the first one's is raised."""
        ex = self._filter_exception(ex) if ex is not None else None
        with self._lock:
            if self._joined:
                if isinstance(ex, tuple):
                    raise ex[1].with_traceback(ex[2])
                if ex is not None:
                    raise ex
                return
            if ex is None:
                self._native.request_stop()
                return
            if not isinstance(ex, tuple):
                kind, value, traceback = sys.exc_info()
                ex = (type(ex), ex, traceback if value is ex else ex.__traceback__)
            elif len(ex) != 3 or not ex[0] or not ex[1]:
                raise ValueError("ex must be a exc_info tuple or exception.")
            value = ex[1]
            code = value.error_code if isinstance(value, errors.OpError) else _UNKNOWN
            if self._native.request_stop((code, str(value))):
                logging.info("Error reported to Coordinator: %s, %s", type(value), value)
                self._exc_info_to_raise = ex

    def clear_stop(self):
        """Forgets that a stop was requested."""
        with self._lock:
            self._joined = False
            self._exc_info_to_raise = None
            self._native.clear_stop()

    def should_stop(self):
        return self._native.should_stop()

    @contextlib.contextmanager
    def stop_on_exception(self):
        """Requests a stop when the body raises."""
        try:
            yield
        except BaseException:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout=None):
        """Waits until a stop is requested. Whether one was."""
        return self._native.wait_for_stop(timeout)

    def register_thread(self, thread):
        """Makes `join` wait for a thread."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(self, threads=None, stop_grace_period_secs=120, ignore_live_threads=False):
        """Waits for the threads; after a request to stop they have some time to end. Raises the error of that request."""
        with self._lock:
            threads = list(self._registered_threads.union(threads or ()))

        def any_alive():
            return any(thread.is_alive() for thread in threads) or self._native.has_live_threads()

        while any_alive() and not self.wait_for_stop(0.05):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        while any_alive() and time.monotonic() < deadline:
            self._native.wait_for_stop(0.0)
            alive = [thread for thread in threads if thread.is_alive()]
            if alive:
                alive[0].join(min(0.05, max(deadline - time.monotonic(), 0.0)))
            else:
                time.sleep(0.005)
        stragglers = [thread.name for thread in threads if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            raised = self._exc_info_to_raise
        if raised is not None:
            raise raised[1].with_traceback(raised[2])
        self._native.raise_requested_error()
        if stragglers:
            text = "Coordinator stopped with threads still running: %s" % " ".join(stragglers)
            if not ignore_live_threads:
                raise RuntimeError(text)
            logging.info(text)

    @property
    def joined(self):
        return self._joined

    def raise_requested_exception(self):
        """Raises the error of the request to stop, if it had one."""
        with self._lock:
            raised = self._exc_info_to_raise
        if raised is not None:
            raise raised[1].with_traceback(raised[2])
        self._native.raise_requested_error()


@export("train.LooperThread")
class LooperThread(threading.Thread):
    """A thread that calls `run_loop` again and again until its coordinator stops."""

    def __init__(self, coord, timer_interval_secs, target=None, args=None, kwargs=None):
        if not isinstance(coord, Coordinator):
            raise ValueError("'coord' argument must be a Coordinator: %s" % coord)
        super().__init__()
        self.daemon = True
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._target, self._args, self._kwargs = target, args or (), kwargs or {}
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        coord.register_thread(self)

    @staticmethod
    def loop(coord, timer_interval_secs, target, args=None, kwargs=None):
        """Starts a thread that calls `target` every so many seconds, or all the time."""
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self):
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                next_time = time.time()
                while not self._coord.wait_for_stop(next_time - time.time()):
                    next_time += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self):
        """Called when the thread begins."""

    def stop_loop(self):
        """Called when the thread ends."""

    def run_loop(self):
        """Called again and again."""
        if self._target:
            self._target(*self._args, **self._kwargs)
