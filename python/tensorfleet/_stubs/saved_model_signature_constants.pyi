"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.signature_constants`."""

from tensorfleet.training.saved_model import CLASSIFY_INPUTS as CLASSIFY_INPUTS
from tensorfleet.training.saved_model import CLASSIFY_METHOD_NAME as CLASSIFY_METHOD_NAME
from tensorfleet.training.saved_model import CLASSIFY_OUTPUT_CLASSES as CLASSIFY_OUTPUT_CLASSES
from tensorfleet.training.saved_model import CLASSIFY_OUTPUT_SCORES as CLASSIFY_OUTPUT_SCORES
from tensorfleet.training.saved_model import DEFAULT_SERVING_SIGNATURE_DEF_KEY as DEFAULT_SERVING_SIGNATURE_DEF_KEY
from tensorfleet.training.saved_model import PREDICT_INPUTS as PREDICT_INPUTS
from tensorfleet.training.saved_model import PREDICT_METHOD_NAME as PREDICT_METHOD_NAME
from tensorfleet.training.saved_model import PREDICT_OUTPUTS as PREDICT_OUTPUTS
from tensorfleet.training.saved_model import REGRESS_INPUTS as REGRESS_INPUTS
from tensorfleet.training.saved_model import REGRESS_METHOD_NAME as REGRESS_METHOD_NAME
from tensorfleet.training.saved_model import REGRESS_OUTPUTS as REGRESS_OUTPUTS
