"""The modules below `tf.`: `tf.nn`, `tf.train`, …, made from the table of names.

A namespace loads what it is asked for and keeps it. A name that TensorFlow 1.15 has and this package lacks raises an
`AttributeError` that says so.
"""

import importlib
import os
import sys
import types


class Table:
    """The names below `tf.`, and the namespaces they form."""

    def __init__(self):
        self.names = {}
        self.namespaces = {}

    def load(self):
        """Reads the table once; with TENSORFLEET_DEV set it is made from the modules instead."""
        if self.names:
            return
        if os.environ.get("TENSORFLEET_DEV"):
            from tensorfleet.framework import export

            self.names.update({"": None})  # whoever asks meanwhile sees an unfinished table, and is asked again
            names = dict(export.import_all())
            self.names = names
        else:
            from tensorfleet import _names

            modules = [f"tensorfleet.{module}" for module in _names.MODULES]
            self.names = {name: (modules[index], attribute) for name, (index, attribute) in _names.NAMES.items()}
        for name in self.names:
            parts = name.split(".")
            for depth in range(len(parts)):
                self.namespaces.setdefault(".".join(parts[:depth]), set()).add(parts[depth])

    def find(self, name):
        """The thing called `name` below `tf.`."""
        self.load()
        entry = self.names.get(name)
        if entry is not None:
            module, attribute = entry
            thing = importlib.import_module(module)
            for part in attribute.split("."):
                thing = getattr(thing, part)
            return thing
        if name in self.namespaces:
            return Namespace.of(name)
        raise AttributeError(missing_text(name))

    def members(self, prefix):
        """The names directly below a namespace."""
        self.load()
        return sorted(self.namespaces.get(prefix, ()))


TABLE = Table()


def missing_text(name):
    """What is said of a name that is not there."""
    from tensorfleet.framework import missing

    return missing.text(name)


class Namespace(types.ModuleType):
    """A module below `tf.` whose names are found when they are first used."""

    _made = {}

    @classmethod
    def of(cls, prefix):
        """The namespace below `tf.` with this prefix."""
        namespace = cls._made.get(prefix)
        if namespace is None:
            namespace = cls._made[prefix] = cls(f"tensorfleet.{prefix}", f"`tf.{prefix}`, as TensorFlow 1.15 has it.")
            namespace.__dict__["_prefix"] = prefix
            namespace.__path__ = []
            sys.modules.setdefault(namespace.__name__, namespace)
        return namespace

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        thing = TABLE.find(f"{self._prefix}.{name}")
        self.__dict__[name] = thing
        return thing

    def __dir__(self):
        return TABLE.members(self._prefix)

    def __repr__(self):
        return f"<module {self.__name__!r} (TensorFlow 1.15's names, by tensorfleet)>"


def package(module_name):
    """`__getattr__` and `__dir__` of the package itself."""

    def find(name):
        # Also `_native` and `_names`: `from tensorfleet import _native` asks here before it imports the module.
        if name.startswith("_"):
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        thing = TABLE.find(name)
        sys.modules[module_name].__dict__[name] = thing
        return thing

    def names():
        return TABLE.members("")

    return find, names
