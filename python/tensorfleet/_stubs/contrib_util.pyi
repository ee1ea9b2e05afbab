"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.util`."""

from tensorfleet.framework.constant import constant_value as constant_value
