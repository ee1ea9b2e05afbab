"""`tf.flags` and `tf.app.run`: what the command line may say, and what programs do with flags."""

import enum
import os
import subprocess
import sys
import tempfile
import unittest

from tensorfleet.platform import flags

PROGRAM = """
import tensorfleet as tf
flags = tf.app.flags
flags.DEFINE_string("hosts", "a:1", "Hosts.")
flags.DEFINE_integer("n", 3, "Number", lower_bound=0)
flags.DEFINE_float("lr", 0.1, "Rate")
flags.DEFINE_boolean("sync", False, "Sync")
flags.DEFINE_enum("job", "ps", ["ps", "worker"], "Job")
flags.DEFINE_string(flag_name="old", default_value="x", docstring="old style")
def main(argv):
    F = flags.FLAGS
    print(argv[1:], F.hosts, F.n, F.lr, F.sync, F.job, F.old)
    F.n = 7
    return F.n
if __name__ == "__main__":
    tf.app.run()
"""


def define(values):
    flags.DEFINE_string("name", "a", "h", flag_values=values)
    flags.DEFINE_integer("n", 1, "h", flag_values=values)
    flags.DEFINE_boolean("on", False, "h", flag_values=values)
    flags.DEFINE_list("items", "a,b", "h", flag_values=values)
    flags.DEFINE_multi_integer("m", None, "h", flag_values=values)
    return values


class Parsing(unittest.TestCase):
    def setUp(self):
        self.values = define(flags.FlagValues())

    def test_forms_of_a_flag(self):
        rest = self.values(["p", "--name=x", "-n", "5", "--on", "word", "--items=c, d", "--m=1", "--m=2", "--", "--n=9"])
        self.assertEqual(rest, ["p", "word", "--n=9"])
        self.assertEqual(self.values.flag_values_dict(), {"name": "x", "n": 5, "on": True, "items": ["c", "d"], "m": [1, 2]})
        self.values(["p", "--noon", "--n=0x10"])
        self.assertEqual((self.values.on, self.values.n), (False, 16))

    def test_mistakes(self):
        for arguments, error, text in [
            (["--n=x"], flags.IllegalFlagValueError, "flag --n=x: invalid literal for int() with base 10: 'x'"),
            (["--n"], flags.Error, "Missing value for flag --n"),
            (["--bogus"], flags.UnrecognizedFlagError, "Unknown command line flag 'bogus'"),
            (["--on=maybe"], flags.IllegalFlagValueError, "flag --on=maybe: ('Non-boolean argument to boolean flag', 'maybe')"),
            (["--noon=1"], ValueError, "--noon=1 does not take an argument"),
        ]:
            with self.assertRaises(error) as caught:
                self.values(["p"] + arguments)
            self.assertEqual(str(caught.exception), text)
        self.assertEqual(self.values(["p", "--undefok=bogus", "--bogus=3"]), ["p"])
        self.assertEqual(self.values(["p", "--bogus=3"], known_only=True), ["p", "--bogus=3"])

    def test_flags_are_not_read_before_the_command_line(self):
        with self.assertRaisesRegex(flags.UnparsedFlagAccessError, "Trying to access flag --n before flags were parsed."):
            self.values.n
        self.values(["p"])
        self.values.n = 4
        self.assertEqual(self.values.n, 4)
        with self.assertRaises(flags.UnrecognizedFlagError):
            self.values.nope = 1
        with self.assertRaises(AttributeError):
            self.values.nope

    def test_validators(self):
        flags.DEFINE_string("must", None, "h", flag_values=self.values)
        flags.mark_flag_as_required("must", self.values)
        flags.register_validator("n", lambda n: n < 5, "too big", self.values)
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "flag --must=None: Flag --must must have a value other than None."):
            self.values(["p"])
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "flag --n=7: too big"):
            self.values(["p", "--must=1", "--n=7"])

    def test_a_file_of_flags(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "flags")
            with open(path, "w") as file:
                file.write("# comment\n--name=filed\n--n=8\n")
            self.values(["p", "--flagfile=" + path, "--n=9"])
        self.assertEqual((self.values.name, self.values.n), ("filed", 9))

    def test_an_enum_class(self):
        kind = enum.Enum("Kind", "RED GREEN")
        holder = flags.DEFINE_enum_class("kind", kind.RED, kind, "h", flag_values=self.values)
        self.values(["p", "--kind=green"])
        self.assertIs(holder.value, kind.GREEN)

    def test_a_flag_is_defined_once(self):
        with self.assertRaisesRegex(flags.DuplicateFlagError, "The flag 'n' is defined twice."):
            flags.DEFINE_integer("n", 1, "h", flag_values=self.values)


class Program(unittest.TestCase):
    def run_program(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as file:
                file.write(PROGRAM)
            return subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True)

    def test_main_gets_what_is_left_and_its_result_is_the_exit_code(self):
        done = self.run_program("--n=5", "--sync", "rest", "--unknown=1")
        self.assertEqual(done.stdout, "['rest', '--unknown=1'] a:1 5 0.1 True ps x\n")
        self.assertEqual(done.returncode, 7)

    def test_help(self):
        done = self.run_program("--help")
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n  --job: <ps|worker>: Job\n    (default: 'ps')\n", done.stdout)
        self.assertIn("\n  --[no]sync: Sync\n    (default: 'false')\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
