"""Made by `python -m tensorfleet.framework.stubs`: `tf.keras.regularizers`."""

from tensorfleet.modeling.regularizers import L1L2 as L1L2
from tensorfleet.modeling.regularizers import Regularizer as Regularizer
from tensorfleet.modeling.regularizers import l1 as l1
from tensorfleet.modeling.regularizers import l1_l2 as l1_l2
from tensorfleet.modeling.regularizers import l2 as l2
