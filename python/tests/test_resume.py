"""A training that TensorFlow saved and that was killed goes on with tensorfleet, and the other way round."""

import json
import os
import sys
import tempfile
import unittest

import numpy as np
from processes import TESTS, Program, tensorflow_python

import tensorfleet as tf

PROGRAM = os.path.join(TESTS, "resumed_program.py")
KINDS = ("supervised", "monitored")
LAST_STEP = 20
#: Where the first half is killed, and the last step that it has saved.
PAUSE, SAVED = 12, 10


class Resume(unittest.TestCase):
    def start(self, who, directory, *arguments):
        if who == "tensorflow":
            command = [tensorflow_python(1), "-W", "ignore"]
            return Program(self, command + [PROGRAM, directory, *map(str, arguments)], PYTHONPATH="", TF_CPP_MIN_LOG_LEVEL="2")
        command = [sys.executable, "-m", "tensorfleet", "--quiet"]
        return Program(self, command + [PROGRAM, directory, *map(str, arguments)])

    def directory(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return directory.name

    def read(self, lines):
        """The losses and the variables at the end, by the kind of training."""
        losses, variables = {kind: {} for kind in KINDS}, {}
        for kind, what, value in map(json.loads, lines):
            if what == "variables":
                variables[kind] = value
            else:
                losses[kind][what] = value
        return losses, variables

    def half(self, who, directory):
        """Trains to the pause and is killed there."""
        program, lines = self.start(who, directory, LAST_STEP, PAUSE), []
        program.wait_for(lambda line: line == "PAUSED" or lines.append(line))
        program.kill()
        return self.read(lines)[0]

    def whole(self, who, directory):
        *lines, last = self.start(who, directory, LAST_STEP).lines()
        self.assertEqual(last, "DONE")
        return self.read(lines)

    def assert_close(self, ours, theirs):
        self.assertEqual(ours.keys(), theirs.keys())
        for name, value in ours.items():
            np.testing.assert_allclose(value, theirs[name], rtol=1e-5, atol=1e-5, err_msg=str(name))

    def test_a_training_goes_on_with_the_other_one(self):
        undisturbed = self.whole("tensorflow", self.directory())
        alone = self.whole("tensorfleet", self.directory())
        for kind in KINDS:
            self.assertEqual(sorted(undisturbed[0][kind]), list(range(1, LAST_STEP + 1)))
            self.assertIn("hidden/kernel/Adam_1", undisturbed[1][kind])
            self.assertIn("table/ExponentialMovingAverage", undisturbed[1][kind])
            self.assert_close(alone[0][kind], undisturbed[0][kind])
            self.assert_close(alone[1][kind], undisturbed[1][kind])
        for first, second in (("tensorflow", "tensorfleet"), ("tensorfleet", "tensorflow"), ("tensorfleet", "tensorfleet")):
            with self.subTest(first=first, second=second):
                directory = self.directory()
                before = self.half(first, directory)
                names = dict(tf.train.list_variables(os.path.join(directory, "monitored")))
                self.assertEqual(names.keys(), undisturbed[1]["monitored"].keys())
                after, variables = self.whole(second, directory)
                for kind in KINDS:
                    self.assertEqual(sorted(before[kind]), list(range(1, PAUSE + 1)))
                    self.assertEqual(sorted(after[kind]), list(range(SAVED + 1, LAST_STEP + 1)), kind)
                    self.assert_close({**before[kind], **after[kind]}, undisturbed[0][kind])
                    self.assert_close(variables[kind], undisturbed[1][kind])


if __name__ == "__main__":
    unittest.main()
