"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.loader`."""

from tensorfleet.training.saved_model import load as load
from tensorfleet.training.saved_model import maybe_saved_model_directory as maybe_saved_model_directory
