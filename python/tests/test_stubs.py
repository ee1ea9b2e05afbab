"""The stubs have every name, and are those of the present modules."""

import ast
import importlib
import os
import unittest

from tensorfleet.framework import export, stubs

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tensorfleet")


def bound_names(text):
    """The names that a stub offers."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.asname)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield node.targets[0].id


class StubsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = dict(export.import_all())
        cls.stubs = stubs.stubs()

    def stub(self, prefix):
        return self.stubs[f"_stubs/{prefix.replace('.', '_')}.pyi" if prefix else "__init__.pyi"]

    def test_every_name_is_there(self):
        offered = {}
        for name in self.names:
            prefix, _, last = name.rpartition(".")
            if prefix not in offered:
                offered[prefix] = set(bound_names(self.stub(prefix)))
            self.assertIn(last, offered[prefix], name)
            # And so is every module on the way to it.
            while prefix:
                prefix, _, last = prefix.rpartition(".")
                self.assertIn(last, set(bound_names(self.stub(prefix))) if prefix not in offered else offered[prefix], name)

    def test_what_is_imported_is_in_its_source(self):
        for path, text in self.stubs.items():
            for node in ast.parse(text).body:
                if not isinstance(node, ast.ImportFrom) or node.module == "typing":
                    continue
                for alias in node.names:
                    if node.module == "tensorfleet._stubs":
                        self.assertIn(f"_stubs/{alias.name}.pyi", self.stubs, path)
                    else:
                        self.assertTrue(hasattr(importlib.import_module(node.module), alias.name), f"{path}: {alias.name}")

    def test_signatures_are_written_out(self):
        def function(x, *, axis=None, name="a", rate=0.5, odd=object()):
            del x, axis, name, rate, odd

        self.assertEqual(stubs.signature_text(function), "(x, *, axis=None, name='a', rate=0.5, odd=...)")
        self.assertEqual(stubs.written_out("f", function)[0], f"def f{stubs.signature_text(function)} -> Any: ...")
        self.assertEqual(stubs.written_out("LIMIT", 3), ["LIMIT: int"])

    @unittest.skipUnless(os.path.isdir(SOURCES), "the sources are elsewhere")
    def test_the_written_ones_are_up_to_date(self):
        self.assertTrue(stubs.check(SOURCES), "python -m tensorfleet.framework.export, then ….stubs")


if __name__ == "__main__":
    unittest.main()
