"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.learn.datasets.mnist`."""

from tensorfleet.tutorials.mnist_data import DataSet as DataSet
from tensorfleet.tutorials.mnist_data import dense_to_one_hot as dense_to_one_hot
from tensorfleet.tutorials.mnist_data import extract_images as extract_images
from tensorfleet.tutorials.mnist_data import extract_labels as extract_labels
from tensorfleet.tutorials.mnist_data import load_mnist as load_mnist
from tensorfleet.tutorials.mnist_data import read_data_sets as read_data_sets
