"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.learn.datasets.base`."""

from tensorfleet.tutorials.mnist_data import Dataset as Dataset
from tensorfleet.tutorials.mnist_data import Datasets as Datasets
