"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.utils`."""

from tensorfleet.training.saved_model import build_tensor_info as build_tensor_info
from tensorfleet.training.saved_model import get_tensor_from_tensor_info as get_tensor_from_tensor_info
