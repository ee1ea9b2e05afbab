"""Made by `python -m tensorfleet.framework.stubs`: modules below `tf.`."""
