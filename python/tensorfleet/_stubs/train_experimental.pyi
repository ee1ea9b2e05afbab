"""Made by `python -m tensorfleet.framework.stubs`: `tf.train.experimental`."""

from tensorfleet.training.saveable import SaveableObject as SaveableObject
