"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.staging`."""

from tensorfleet.input.staging import StagingArea as StagingArea
