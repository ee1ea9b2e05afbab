"""Made by `python -m tensorfleet.framework.stubs`: `tf.keras`."""

from tensorfleet._stubs import keras_backend as backend
from tensorfleet._stubs import keras_initializers as initializers
from tensorfleet._stubs import keras_layers as layers
from tensorfleet._stubs import keras_regularizers as regularizers
