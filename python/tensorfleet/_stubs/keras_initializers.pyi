"""Made by `python -m tensorfleet.framework.stubs`: `tf.keras.initializers`."""

from tensorfleet.modeling.initializers import Constant as Constant
from tensorfleet.modeling.initializers import Ones as Ones
from tensorfleet.modeling.initializers import VarianceScaling as VarianceScaling
from tensorfleet.modeling.initializers import Zeros as Zeros
from tensorfleet.modeling.initializers import Constant as constant
from tensorfleet.modeling.initializers import GlorotNormal as glorot_normal
from tensorfleet.modeling.initializers import GlorotUniform as glorot_uniform
from tensorfleet.modeling.initializers import he_normal as he_normal
from tensorfleet.modeling.initializers import he_uniform as he_uniform
from tensorfleet.modeling.initializers import lecun_normal as lecun_normal
from tensorfleet.modeling.initializers import lecun_uniform as lecun_uniform
from tensorfleet.modeling.initializers import Ones as ones
from tensorfleet.modeling.initializers import Zeros as zeros
