"""Made by `python -m tensorfleet.framework.stubs`: `tf.keras.backend`."""

from tensorfleet.framework.ops import name_scope as name_scope
