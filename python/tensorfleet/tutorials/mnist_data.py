"""`tensorflow.examples.tutorials.mnist.input_data`: the MNIST digits, in batches.

The four files are read from `train_dir` if they are there. If not, nothing is downloaded: the digits that are built into the package are used, and a
line on the standard error says so. For a seed, batches come in TensorFlow's order."""

import collections
import gzip
import os
import sys

import numpy as np

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export, export_values

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
#: How many of MNIST's training digits are built in.
BUILT_IN = 15000
FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])
Dataset = collections.namedtuple("Dataset", ["data", "target"])
export_values(__name__, {"contrib.learn.datasets.base.Datasets": "Datasets", "contrib.learn.datasets.base.Dataset": "Dataset"})

_noticed = False


def _integer(data, offset):
    return int.from_bytes(data[offset:offset + 4], "big")


def _read_all(file):
    data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@export("contrib.learn.datasets.mnist.extract_images")
def extract_images(f):
    """Images of an idx file, opened binary, as bytes `[count, rows, columns, 1]`."""
    data, name = _read_all(f), getattr(f, "name", "file")
    if len(data) < 16 or _integer(data, 0) != 2051:
        raise ValueError("Invalid magic number %d in MNIST image file: %s" % (_integer(data, 0), name))
    count, rows, columns = (_integer(data, offset) for offset in (4, 8, 12))
    if len(data) - 16 < count * rows * columns:
        raise ValueError("MNIST image file %s ends early: %d bytes for %d images of %d × %d" % (name, len(data) - 16, count, rows, columns))
    return np.frombuffer(data, np.uint8, count * rows * columns, 16).reshape(count, rows, columns, 1)


@export("contrib.learn.datasets.mnist.extract_labels")
def extract_labels(f, one_hot=False, num_classes=10):
    """Labels of an idx file, opened binary."""
    data, name = _read_all(f), getattr(f, "name", "file")
    if len(data) < 8 or _integer(data, 0) != 2049:
        raise ValueError("Invalid magic number %d in MNIST label file: %s" % (_integer(data, 0), name))
    count = _integer(data, 4)
    if len(data) - 8 < count:
        raise ValueError("MNIST label file %s ends early: %d bytes for %d labels" % (name, len(data) - 8, count))
    labels = np.frombuffer(data, np.uint8, count, 8)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


@export("contrib.learn.datasets.mnist.dense_to_one_hot")
def dense_to_one_hot(labels_dense, num_classes):
    """Class numbers as rows with a one at the class."""
    one_hot = np.zeros((labels_dense.shape[0], num_classes))
    one_hot[np.arange(labels_dense.shape[0]), labels_dense.ravel()] = 1
    return one_hot


@export("contrib.learn.datasets.mnist.DataSet")
class DataSet:
    """Images and labels that come in shuffled batches, epoch after epoch."""

    def __init__(self, images, labels, fake_data=False, one_hot=False, dtype=dtypes.float32, reshape=True, seed=None):
        seed1, seed2 = _seeds(seed)
        # One stream of random numbers for the whole process, as TensorFlow has it: programs that seed numpy themselves get the same batches.
        np.random.seed(seed1 if seed is None else seed2)
        dtype = dtypes.as_dtype(dtype).base_dtype
        if dtype not in (dtypes.uint8, dtypes.float32):
            raise TypeError("Invalid image dtype %r, expected uint8 or float32" % dtype)
        self.one_hot, self._fake, self._cut, self._dtype, self._shape = one_hot, fake_data, False, dtype, None
        if fake_data:
            self._num_examples = 10000
        else:
            assert images.shape[0] == labels.shape[0], "images.shape: %s labels.shape: %s" % (images.shape, labels.shape)
            self._num_examples = images.shape[0]
            if reshape:
                assert images.shape[3] == 1
                images = images.reshape(images.shape[0], images.shape[1] * images.shape[2])
            if dtype == dtypes.float32:
                images = np.multiply(images.astype(np.float32), 1.0 / 255.0)
        self._images, self._labels = images, labels
        self._epochs_completed = self._index_in_epoch = 0

    @property
    def images(self):
        return self._images

    @property
    def labels(self):
        return self._labels

    @property
    def num_examples(self):
        return self._num_examples

    @property
    def epochs_completed(self):
        return self._epochs_completed

    def _reorder(self):
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self.images[order], self.labels[order]

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """The next `batch_size` images and labels."""
        if fake_data:
            label = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._reorder()
        if start + batch_size <= self._num_examples:
            self._index_in_epoch += batch_size
            return self._images[start:self._index_in_epoch], self._labels[start:self._index_in_epoch]
        # What is left of this epoch, and the beginning of the next.
        self._epochs_completed += 1
        left = self._num_examples - start
        images, labels = self._images[start:], self._labels[start:]
        if shuffle:
            self._reorder()
        self._index_in_epoch = batch_size - left
        return (np.concatenate((images, self._images[:self._index_in_epoch]), axis=0), np.concatenate((labels, self._labels[:self._index_in_epoch]), axis=0))


def _seeds(seed):
    from tensorfleet.framework import random_seed

    return random_seed.get_seed(seed)


def _built_in(train_dir):
    """The digits of the package: images as bytes `[count, 28, 28, 1]` and labels, for training and test."""
    global _noticed
    from tensorfleet import _native

    if not _noticed:
        print("tensorfleet: no MNIST files in %r; using the 17,500 digits built into the package" % (train_dir or "."), file=sys.stderr)
        _noticed = True
    sets = [(np.asarray(images), np.asarray(labels)) for images, labels in _native.mnist_data()]
    images = [np.rint(images * 255.0).astype(np.uint8).reshape(len(images), 28, 28, 1) for images, _ in sets]
    labels = [labels.astype(np.uint8) for _, labels in sets]
    # What the package keeps for validation is part of the training set in MNIST's own files, at its beginning.
    return np.concatenate((images[1], images[0])), np.concatenate((labels[1], labels[0])), images[2], labels[2]


def _load(train_dir, one_hot):
    paths = [_existing(train_dir, name) for name in FILES]
    if not all(paths):
        train_images, train_labels, test_images, test_labels = _built_in(train_dir)
        if one_hot:
            train_labels, test_labels = dense_to_one_hot(train_labels, 10), dense_to_one_hot(test_labels, 10)
        return train_images, train_labels, test_images, test_labels
    out = []
    for path in paths:
        print("Extracting", path)
        with open(path, "rb") as file:
            out.append(extract_images(file) if "images" in os.path.basename(path) else extract_labels(file, one_hot))
    return out


def _existing(train_dir, name):
    for candidate in (name, name[:-3], name[:-3].replace("-idx", ".idx")):
        path = os.path.join(os.path.expanduser(train_dir or ""), candidate)
        if os.path.isfile(path):
            return path
    return None


@export("contrib.learn.datasets.mnist.read_data_sets")
def read_data_sets(train_dir, fake_data=False, one_hot=False, dtype=dtypes.float32, reshape=True, validation_size=5000, seed=None,
                   source_url=DEFAULT_SOURCE_URL):
    """Training, validation and test sets. `source_url` is accepted, but nothing is ever downloaded."""
    if fake_data:
        sets = (DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed) for _ in range(3))
        return Datasets(*sets)
    train_images, train_labels, test_images, test_labels = _load(train_dir, one_hot)
    if validation_size == 5000 and len(train_images) == BUILT_IN:
        validation_size = len(train_images) // 12  # TensorFlow's share of MNIST's 60,000
    if not 0 <= validation_size <= len(train_images):
        raise ValueError("Validation size should be between 0 and %d. Received: %d." % (len(train_images), validation_size))
    options = {"dtype": dtype, "reshape": reshape, "seed": seed}
    validation = train_images[:validation_size], train_labels[:validation_size]
    train = train_images[validation_size:], train_labels[validation_size:]
    return Datasets(train=DataSet(*train, **options), validation=DataSet(*validation, **options), test=DataSet(test_images, test_labels, **options))


@export("contrib.learn.datasets.load_dataset")
def load_dataset(name, size="small", test_with_fake_data=False):
    """A data set by name; only MNIST is here."""
    if name != "mnist":
        raise ValueError("Name of dataset: %s was not found." % name)
    return load_mnist()


@export("contrib.learn.datasets.mnist.load_mnist")
def load_mnist(train_dir="MNIST-data"):
    """The MNIST digits."""
    return read_data_sets(train_dir)
