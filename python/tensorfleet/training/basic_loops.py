"""`basic_train_loop`: calls a function until a supervisor stops."""

from tensorfleet.framework import errors
from tensorfleet.framework.export import export


@export("train.basic_train_loop")
def basic_train_loop(supervisor, train_step_fn, args=None, kwargs=None, master=""):
    """Calls `train_step_fn(session, *args, **kwargs)` until the supervisor stops, again in a new session when tasks were lost."""
    args, kwargs = args or [], kwargs or {}
    should_retry = True
    while should_retry:
        try:
            should_retry = False
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *args, **kwargs)
        except errors.AbortedError:
            should_retry = True
