"""TensorFlow's messages without the `protobuf` package: `ConfigProto`, `GraphDef`, `Example`, `Event` and all the others.

A class is made when its name is first asked for: `tensorfleet.protobuf.GraphDef`, or `by_name("tensorflow.GraphDef")`. Enumerations are here too, and the
text form is in `tensorfleet.protobuf.text_format`."""

from . import _descriptors


def by_name(full_name):
    """The class of a message, or the wrapper of an enumeration, by its full name."""
    from . import descriptor

    if full_name in _descriptors.MESSAGES:
        return descriptor.message(full_name)._concrete_class
    if full_name in _descriptors.ENUMS:
        from .message import EnumTypeWrapper

        enum = descriptor.enum(full_name)
        if not hasattr(enum, "_wrapper"):
            enum._wrapper = EnumTypeWrapper(enum)
        return enum._wrapper
    raise KeyError(full_name)


def __getattr__(name):
    for package in ("tensorflow.", "google.protobuf.", "tensorflow.tfprof.", "tensorflow.error."):
        if package + name in _descriptors.MESSAGES or package + name in _descriptors.ENUMS:
            found = globals()[name] = by_name(package + name)
            return found
    raise AttributeError("module 'tensorfleet.protobuf' has no attribute %r" % name)


def __dir__():
    names = (name.partition(".")[2] for table in (_descriptors.MESSAGES, _descriptors.ENUMS) for name in table)
    return sorted({name for name in names if "." not in name} | {"by_name", "text_format"})
