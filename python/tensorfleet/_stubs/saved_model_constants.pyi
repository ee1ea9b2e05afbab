"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.constants`."""

from tensorfleet.training.saved_model import ASSETS_DIRECTORY as ASSETS_DIRECTORY
from tensorfleet.training.saved_model import ASSETS_KEY as ASSETS_KEY
from tensorfleet.training.saved_model import LEGACY_INIT_OP_KEY as LEGACY_INIT_OP_KEY
from tensorfleet.training.saved_model import MAIN_OP_KEY as MAIN_OP_KEY
from tensorfleet.training.saved_model import SAVED_MODEL_FILENAME_PB as SAVED_MODEL_FILENAME_PB
from tensorfleet.training.saved_model import SAVED_MODEL_FILENAME_PBTXT as SAVED_MODEL_FILENAME_PBTXT
from tensorfleet.training.saved_model import SAVED_MODEL_SCHEMA_VERSION as SAVED_MODEL_SCHEMA_VERSION
from tensorfleet.training.saved_model import VARIABLES_DIRECTORY as VARIABLES_DIRECTORY
from tensorfleet.training.saved_model import VARIABLES_FILENAME as VARIABLES_FILENAME
