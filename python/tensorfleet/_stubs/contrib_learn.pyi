"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.learn`."""

from tensorfleet._stubs import contrib_learn_datasets as datasets
