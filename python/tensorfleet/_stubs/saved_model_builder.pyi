"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.builder`."""

from tensorfleet.training.saved_model import SavedModelBuilder as SavedModelBuilder
