"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.tag_constants`."""

from tensorfleet.training.saved_model import GPU as GPU
from tensorfleet.training.saved_model import SERVING as SERVING
from tensorfleet.training.saved_model import TPU as TPU
from tensorfleet.training.saved_model import TRAINING as TRAINING
