"""`tf.gfile`: files with TensorFlow's errors."""

import os
import tempfile
import unittest

import tensorfleet as tf


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        with tf.gfile.GFile(self.path(name), "w") as file:
            file.write(text)

    def test_text_and_bytes(self):
        self.write("f", "hello\nwörld")
        self.assertEqual(tf.gfile.GFile(self.path("f")).read(), "hello\nwörld")
        self.assertEqual(tf.gfile.Open("file://" + self.path("f"), "rb").read(), "hello\nwörld".encode())
        self.assertEqual(list(tf.gfile.FastGFile(self.path("f"))), ["hello\n", "wörld"])
        file = tf.gfile.GFile(self.path("f"))
        self.assertEqual((file.read(2), file.tell(), file.size()), ("he", 2, 12))

    def test_errors_are_tensorflows(self):
        for error, text, act in [
            (tf.errors.NotFoundError, "No such file or directory", lambda: tf.gfile.GFile(self.path("no")).read()),
            (tf.errors.NotFoundError, "Could not find directory", lambda: tf.gfile.ListDirectory(self.path("no"))),
            (tf.errors.NotFoundError, "no not found", lambda: tf.gfile.DeleteRecursively(self.path("no"))),
            (tf.errors.FailedPreconditionError, "Is a directory", lambda: tf.gfile.GFile(self.folder).read()),
            (tf.errors.PermissionDeniedError, "File isn't open for writing", lambda: tf.gfile.GFile(self.path("no")).write("x")),
            (tf.errors.UnimplementedError, "File system scheme 'hdfs' not implemented", lambda: tf.gfile.Exists("hdfs://a/b")),
            (TypeError, "Expected binary or unicode string", lambda: tf.gfile.Exists(None)),
        ]:
            with self.assertRaises(error) as caught:
                act()
            self.assertIn(text, str(caught.exception))

    def test_copies_do_not_overwrite_unless_told(self):
        self.write("a", "1")
        self.write("b", "2")
        with self.assertRaises(tf.errors.AlreadyExistsError):
            tf.gfile.Copy(self.path("a"), self.path("b"))
        tf.gfile.Rename(self.path("a"), self.path("b"), overwrite=True)
        self.assertEqual(tf.gfile.GFile(self.path("b")).read(), "1")

    def test_patterns_and_walks(self):
        tf.gfile.MakeDirs(self.path("x", "y"))
        self.write("x/1.txt", "")
        self.write("2.txt", "")
        self.assertEqual(tf.gfile.Glob(self.path("*.txt")), [self.path("2.txt")])
        self.assertEqual(sorted(tf.io.gfile.glob([self.path("*", "*.txt"), self.path("x")])), [self.path("x"), self.path("x", "1.txt")])
        self.assertEqual(list(tf.gfile.Walk(self.path("x"))), [(self.path("x"), ["y"], ["1.txt"]), (self.path("x", "y"), [], [])])


if __name__ == "__main__":
    unittest.main()
