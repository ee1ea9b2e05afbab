"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.learn.datasets`."""

from tensorfleet._stubs import contrib_learn_datasets_base as base
from tensorfleet._stubs import contrib_learn_datasets_mnist as mnist
from tensorfleet.tutorials.mnist_data import load_dataset as load_dataset
