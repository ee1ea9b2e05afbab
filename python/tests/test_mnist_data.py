"""The MNIST reader: files, the built-in digits, and the order of batches."""

import contextlib
import gzip
import io
import os
import struct
import tempfile
import unittest

import numpy as np

from tensorfleet.tutorials import mnist_data


def write(folder, prefix, count, draw):
    with gzip.open(os.path.join(folder, prefix + "-images-idx3-ubyte.gz"), "wb") as file:
        file.write(struct.pack(">IIII", 2051, count, 28, 28) + draw.randint(0, 256, count * 784).astype(np.uint8).tobytes())
    with gzip.open(os.path.join(folder, prefix + "-labels-idx1-ubyte.gz"), "wb") as file:
        file.write(struct.pack(">II", 2049, count) + draw.randint(0, 10, count).astype(np.uint8).tobytes())


class Reader(unittest.TestCase):
    def test_files_give_tensorflows_batches(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            draw = np.random.RandomState(0)
            write(folder, "train", 60, draw)
            write(folder, "t10k", 20, draw)
            sets = mnist_data.read_data_sets(folder, validation_size=10, seed=7)
        self.assertEqual((sets.train.num_examples, sets.validation.num_examples, sets.test.num_examples), (50, 10, 20))
        labels = [sets.train.next_batch(16)[1].tolist() for _ in range(4)]
        self.assertEqual(labels, EXPECTED)
        self.assertEqual(sets.train.epochs_completed, 1)

    def test_fake_data(self):
        sets = mnist_data.read_data_sets("", fake_data=True, one_hot=True)
        images, labels = sets.train.next_batch(3, fake_data=True)
        self.assertEqual((len(images), len(images[0]), labels[0]), (3, 784, [1] + [0] * 9))

    def test_bad_files(self):
        with self.assertRaisesRegex(ValueError, "Invalid magic number 7 in MNIST image file"):
            mnist_data.extract_images(io.BytesIO(struct.pack(">IIII", 7, 1, 28, 28)))
        with self.assertRaisesRegex(ValueError, "ends early"):
            mnist_data.extract_labels(io.BytesIO(struct.pack(">II", 2049, 10)))


#: The labels of TensorFlow 1.15's batches for these files and this seed.
EXPECTED = [
    [4, 4, 9, 5, 5, 6, 5, 2, 6, 8, 2, 2, 3, 4, 0, 4],
    [0, 4, 6, 1, 5, 7, 4, 9, 0, 6, 1, 7, 4, 4, 2, 7],
    [9, 4, 7, 2, 7, 0, 6, 2, 2, 3, 7, 8, 9, 6, 6, 9],
    [8, 9, 4, 2, 5, 0, 7, 6, 6, 1, 2, 6, 0, 0, 6, 4],
]

if __name__ == "__main__":
    unittest.main()
