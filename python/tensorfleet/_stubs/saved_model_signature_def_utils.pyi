"""Made by `python -m tensorfleet.framework.stubs`: `tf.saved_model.signature_def_utils`."""

from tensorfleet.training.saved_model import build_signature_def as build_signature_def
from tensorfleet.training.saved_model import classification_signature_def as classification_signature_def
from tensorfleet.training.saved_model import is_valid_signature as is_valid_signature
from tensorfleet.training.saved_model import predict_signature_def as predict_signature_def
from tensorfleet.training.saved_model import regression_signature_def as regression_signature_def
