"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.checkpoint`."""

from tensorfleet.training.saveable import SaveableObject as SaveableObject
