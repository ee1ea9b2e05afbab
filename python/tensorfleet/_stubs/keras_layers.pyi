"""Made by `python -m tensorfleet.framework.stubs`: `tf.keras.layers`."""

from tensorfleet.modeling.layers.input_spec import InputSpec as InputSpec
