"""The module objects behind `tensorflow.…`: the package itself, its namespaces, and doors to what TensorFlow keeps in its own files."""

import importlib
import sys
import types

from tensorfleet.framework import namespaces

from . import paths

PACKAGE = "tensorfleet"


class Door(types.ModuleType):
    """A module of TensorFlow's, by its path. Its names are found in this package when they are first used."""

    def __init__(self, name, sources):
        super().__init__(name, "What programs look for in `%s`, by tensorfleet." % name)
        self.__dict__["_sources"] = sources
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        for source in self._sources:
            found = _look(source, name)
            if found is not _NOTHING:
                self.__dict__[name] = found
                return found
        raise AttributeError("tensorfleet has no %s.%s (it stands in for TensorFlow); tensorfleet.missing('script.py') lists what a script uses and tensorfleet lacks" % (
            self.__name__, name))

    def __dir__(self):
        names = set(self.__dict__)
        for source in self._sources:
            if source == "tf" or source.startswith("tf."):
                names.update(namespaces.TABLE.members(source[3:]))
            elif source != "gen":
                module = _module(source)
                names.update(dir(module) if module is not None else ())
        return sorted(names)

    def __repr__(self):
        return "<module %r (by tensorfleet)>" % self.__name__


class MessageDoor(types.ModuleType):
    """One of TensorFlow's `…_pb2` modules."""

    def __init__(self, name, members):
        super().__init__(name, "Messages of `%s`, by tensorfleet." % name)
        self.__dict__["_members"] = members

    def __getattr__(self, name):
        found = self._members.get(name)
        if found is None:
            raise AttributeError("tensorfleet has no %s.%s" % (self.__name__, name))
        if isinstance(found, str):
            from tensorfleet import protobuf

            found = protobuf.by_name(found)
        self.__dict__[name] = found
        return found

    def __dir__(self):
        return sorted(set(self.__dict__) | set(self._members))

    def __repr__(self):
        return "<module %r (by tensorfleet)>" % self.__name__


_NOTHING = object()


def _module(source):
    name = source if source == "inspect" else PACKAGE + "." + source
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


def _look(source, name):
    if source == "gen":
        return _generated(name)
    if source == "tf" or source.startswith("tf."):
        full = (source[3:] + "." + name).lstrip(".")
        try:
            return namespaces.TABLE.find(full)
        except AttributeError:
            return _NOTHING
    return getattr(_module(source), name, _NOTHING)


def _generated(name):
    """`relu_grad` as the op `ReluGrad`; words such as `2d` and `v2` keep their letters' case as ops write them."""
    from tensorfleet.framework import gen

    camel = "".join(part[:1].upper() + part[1:] for part in name.lstrip("_").split("_"))
    for candidate in (camel, camel.replace("2d", "2D").replace("3d", "3D"), name):
        found = getattr(gen, candidate, None)
        if found is not None:
            return found
    wanted = name.replace("_", "").lower()
    return next((getattr(gen, op) for op in dir(gen) if op.lower() == wanted), _NOTHING)


def resolve(full_name):
    """The module for `tensorflow` or `tensorflow.…`; None if there is none."""
    if full_name == "tensorflow":
        return importlib.import_module(PACKAGE)
    path = full_name[len("tensorflow."):]
    # `tf.compat.v1` has all names once more, and below it the same namespaces.
    while path == "compat.v1" or path.startswith("compat.v1."):
        path = path[len("compat.v1."):]
    if not path:
        return importlib.import_module(PACKAGE)
    if path.endswith("_pb2"):
        from tensorfleet.protobuf import modules

        members = modules.members("tensorflow." + path)
        return None if members is None else MessageDoor(full_name, members)
    found = paths.sources(path)
    if found is not None:
        # One source is the thing itself: modules compare by identity, and their functions look at their own module.
        if len(found) == 1 and found[0].startswith("tf."):
            return _namespace(found[0][3:])
        if len(found) == 1 and found[0] != "gen" and found[0] != "tf":
            return _module(found[0])
        return Door(full_name, found)
    namespace = _namespace(path)
    if namespace is not None:
        return namespace
    if path in ("core", "python", "contrib", "examples", "compat") or paths.is_package(path):
        return Door(full_name, [])
    return None


def _namespace(path):
    try:
        thing = namespaces.TABLE.find(path)
    except AttributeError:
        return None
    return thing if isinstance(thing, types.ModuleType) else None


def standing_in():
    """Whether `tensorflow` is this package at the moment."""
    return sys.modules.get("tensorflow") is sys.modules.get(PACKAGE)
