"""Made by `python -m tensorfleet.framework.stubs`: `tf.app`."""

from tensorfleet._stubs import app_flags as flags
from tensorfleet.platform.app import run as run
