"""Standing in for TensorFlow: imports, the runner, hints for Python 2, and the list of what a program lacks."""

import importlib
import os
import subprocess
import sys
import tempfile
import unittest

import tensorfleet
from tensorfleet.standin import paths, python2, scan


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def script(self, text, name="script.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_script(self, *arguments, **options):
        return subprocess.run([sys.executable, "-m", "tensorfleet", *arguments], capture_output=True, text=True, **options)

    def test_a_script_sees_what_python_would_show_it(self):
        self.script("VALUE = 5\n", "beside.py")
        path = self.script(
            "import sys, beside\nimport tensorflow as tf\n"
            "print(sys.argv[1:], beside.VALUE, __name__, __file__ == sys.argv[0], sys.modules['__main__'].__dict__ is globals())\n"
            "print(tf.__version__, tf.__file__, tf)\nsys.exit(4)\n")
        done = self.run_script(path, "--a=1", "b")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("['--a=1', 'b'] 5 __main__ True True\n1.15.5 ", done.stdout)
        self.assertIn("<module 'tensorfleet' from", done.stdout)
        self.assertEqual(done.stderr, "tensorfleet %s stands in for tensorflow 1.15.5\n" % tensorfleet.__tensorfleet_version__)

    def test_tracebacks_are_the_scripts_own(self):
        path = self.script("def f():\n    raise ValueError('boom')\nf()\n")
        done = self.run_script("--quiet", path)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("Traceback (most recent call last):\n  File \"%s\", line 3, in <module>" % path), done.stderr)
        self.assertNotIn("tensorfleet", done.stderr)

    def test_modules_and_code(self):
        self.script("import sys\nprint(sys.argv[1:], __name__)\n", "mod.py")
        done = self.run_script("-m", "mod", "x", cwd=self.folder)
        self.assertEqual(done.stdout, "['x'] __main__\n", done.stderr)
        self.assertEqual(self.run_script("-c", "import tensorflow, sys; print(tensorflow.VERSION, sys.argv)", "y").stdout, "1.15.5 ['-c', 'y']\n")

    def test_python_2_gets_a_hint(self):
        done = self.run_script("--quiet", self.script("import tensorflow as tf\nprint 'hello'\n"))
        self.assertIn("SyntaxError", done.stderr)
        self.assertIn("line 2: a print statement is Python 2: write print(…)", done.stderr)
        done = self.run_script("--quiet", self.script("d = {}\nfor k in d.iteritems():\n    pass\n"))
        self.assertIn("line 2: `.iteritems` is Python 2: write items", done.stderr)

    def test_a_missing_file_is_said(self):
        done = self.run_script("nowhere.py")
        self.assertEqual(done.returncode, 2)
        self.assertIn("can't open file 'nowhere.py'", done.stderr)

    def test_check_lists_what_is_missing(self):
        path = self.script("import tensorflow as tf\nfrom tensorflow.python.debug import thing\nx = tf.estimator.Estimator\ny = tf.ConfigProto()\n")
        done = self.run_script("--check", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"tf\.estimator.*script\.py:3\)")
        self.assertIn("tensorflow.python.debug  (%s:2)" % path, done.stdout)
        self.assertNotIn("ConfigProto", done.stdout)
        done = self.run_script("--check", self.script("import tensorflow as tf\ntf.app.run()\n"))
        self.assertEqual((done.returncode, done.stdout), (0, "nothing is missing of the 1 names of TensorFlow that the program uses\n"))


class Imports(unittest.TestCase):
    def setUp(self):
        if "tensorflow" in sys.modules:
            self.skipTest("tensorflow is imported")
        tensorfleet.install_as_tensorflow(quiet=True)
        self.addCleanup(tensorfleet.uninstall_as_tensorflow)

    def test_paths_that_programs_import(self):
        import tensorflow
        import tensorflow.compat.v1 as v1
        from tensorflow.core.framework import graph_pb2, types_pb2
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.examples.tutorials.mnist import input_data
        from tensorflow.python.client import timeline
        from tensorflow.python.framework import dtypes, ops
        from tensorflow.python.platform import gfile, tf_logging
        from tensorflow.python.util import compat, nest

        self.assertIs(tensorflow, tensorfleet)
        self.assertIs(v1, tensorfleet)
        self.assertIs(graph_pb2.GraphDef, tensorfleet.GraphDef)
        self.assertEqual((types_pb2.DT_FLOAT, config_pb2.RunOptions.FULL_TRACE), (1, 3))
        self.assertIs(dtypes.float32, tensorfleet.float32)
        for module, name in ((input_data, "read_data_sets"), (timeline, "Timeline"), (ops, "get_default_graph"), (gfile, "Exists"),
                             (tf_logging, "info"), (compat, "as_bytes"), (nest, "flatten")):
            self.assertTrue(callable(getattr(module, name)), name)

    def test_what_is_not_there_says_so(self):
        with self.assertRaisesRegex(ModuleNotFoundError, "tensorfleet stands in for tensorflow"):
            importlib.import_module("tensorflow.python.no_such_module")
        with self.assertRaisesRegex(AttributeError, "tensorfleet has no"):
            importlib.import_module("tensorflow").no_such_name

    def test_it_can_be_taken_out(self):
        importlib.import_module("tensorflow.python.util.nest")
        tensorfleet.uninstall_as_tensorflow()
        self.assertFalse([name for name in sys.modules if name.partition(".")[0] == "tensorflow"])
        sys.modules["tensorflow"] = os
        self.addCleanup(sys.modules.pop, "tensorflow")
        with self.assertRaisesRegex(RuntimeError, "already imported"):
            tensorfleet.install_as_tensorflow()


class Reading(unittest.TestCase):
    def test_names_are_followed(self):
        found = scan.scan_source(
            "import tensorflow as tf\nflags = tf.app.flags\nFLAGS = flags.FLAGS\nflags.DEFINE_string('a', '', '')\nFLAGS.a\n"
            "old = tf.keras.layers\nold.Dense(3)\nfrom tensorflow import nothing_like_it as n\n", "p.py")
        self.assertEqual([name.name for name in found if "keras" not in name.name], ["tf.nothing_like_it"])
        self.assertTrue(any("keras" in name.name for name in found))

    def test_python_2_lines(self):
        for line in ("print 'a'", "print >>f, 1", "except ValueError, e:", "x = `y`", "raise ValueError, 'x'", "if a <> b:", "n = 10L"):
            self.assertTrue(python2.hints(line), line)
        for line in ("print('a')", "except (ValueError, TypeError):", "x = 'a print b'", "# print x", "print = 3"):
            self.assertFalse(python2.hints(line), line)

    def test_families_of_paths(self):
        self.assertEqual(paths.sources("python.ops.gen_nn_ops"), ["gen"])
        self.assertEqual(paths.sources("contrib.layers.python.layers.layers"), ["tf.contrib.layers"])
        self.assertIsNone(paths.sources("python.nowhere"))

    def test_the_version_is_that_of_the_extension(self):
        native = importlib.import_module("tensorfleet._native")
        self.assertEqual(native.__version__, tensorfleet.__tensorfleet_version__)


if __name__ == "__main__":
    unittest.main()
