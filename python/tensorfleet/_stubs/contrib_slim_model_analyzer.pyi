"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.slim.model_analyzer`."""

from tensorfleet.contribs.slim import analyze_vars as analyze_vars
