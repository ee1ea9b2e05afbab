"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.main_op`."""

from tensorfleet.training.saved_model import main_op as main_op
from tensorfleet.training.saved_model import main_op_with_restore as main_op_with_restore
