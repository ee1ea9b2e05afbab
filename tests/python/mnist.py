"""The first 4000 handwritten digits of the MNIST training set, from `data/mnist`."""

import gzip
import os
import struct

import numpy as np

_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "mnist")
_DIGITS = 4000
_VALIDATION = 500

PIXELS = 28 * 28
CLASSES = 10


class Digits:
    """Images as rows in [0, 1], labels as one-hot rows; batches in an order that the seed decides."""

    def __init__(self, images, labels, seed):
        self.images = images
        self.labels = labels
        self._random = np.random.RandomState(seed)

    def next_batch(self, size):
        chosen = self._random.choice(len(self.images), size, replace=False)
        return self.images[chosen], self.labels[chosen]


def load(seed):
    """Training and validation digits."""
    images = _read_idx("train-images-idx3-ubyte.gz")[:_DIGITS].reshape(-1, PIXELS).astype(np.float32) / 255.0
    labels = np.eye(CLASSES, dtype=np.float32)[_read_idx("train-labels-idx1-ubyte.gz")[:_DIGITS]]
    split = len(images) - _VALIDATION
    return Digits(images[:split], labels[:split], seed), Digits(images[split:], labels[split:], seed)


def _read_idx(name):
    with gzip.open(os.path.join(_DATA, name)) as file:
        content = file.read()
    rank = content[3]
    shape = struct.unpack(">%dI" % rank, content[4 : 4 + 4 * rank])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
