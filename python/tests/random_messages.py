"""Compares our messages with Protocol Buffers' own on random values: bytes and text, both ways, and the methods programs call.

Runs in an environment that has TensorFlow 1.15 (for its message types) and Protocol Buffers: `python random_messages.py [SEED [ROUNDS]]`. It imports our
`protobuf` folder alone, because the rest of the package is for newer Pythons."""

import difflib
import importlib
import importlib.util
import os
import pickle
import random
import sys



def load_ours():
    """Our package `protobuf` by its folder: the folder above must not be in the path, since it has a `platform` of its own."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tensorfleet", "protobuf")
    spec = importlib.util.spec_from_file_location("protobuf", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    module = sys.modules["protobuf"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


load_ours()

import protobuf._descriptors as table  # noqa: E402
import protobuf.descriptor as descriptor  # noqa: E402
import protobuf.text_format as our_text  # noqa: E402
from google.protobuf import text_format as their_text  # noqa: E402


def their_classes():
    """TensorFlow's message classes by full name, where we have a message of that name."""
    import tensorflow.core

    root = os.path.dirname(tensorflow.core.__file__)
    classes = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith("_pb2.py"):
                path = os.path.relpath(os.path.join(folder, name), root)[:-3].replace(os.sep, ".")
                module = importlib.import_module("tensorflow.core." + path)
                for described in module.DESCRIPTOR.message_types_by_name.values():
                    if described.full_name in table.MESSAGES:
                        classes[described.full_name] = described._concrete_class
    from tensorflow.python.training import checkpoint_state_pb2

    classes["tensorflow.CheckpointState"] = checkpoint_state_pb2.CheckpointState
    return classes


TEXTS = ["", "a", "ps:0", "naïve", "\n\t\"'\\", "\x00\x7f", "日本", "x" * 200]


def scalar(field, draw):
    kind = field.type
    if kind in (1, 2):
        return draw.choice([0.0, -0.0, 1.0, 0.1, -2.5, 1e20, 1e-7, 1 / 3.0, 123456789.0, float("inf"), draw.uniform(-1e6, 1e6)])
    if kind in (3, 16, 18):
        return draw.choice([0, 1, -1, 127, 128, -(2 ** 63), 2 ** 63 - 1, draw.randint(-(10 ** 12), 10 ** 12)])
    if kind in (5, 15, 17):
        return draw.choice([0, 1, -1, 300, -(2 ** 31), 2 ** 31 - 1])
    if kind in (4, 6):
        return draw.choice([0, 1, 2 ** 64 - 1])
    if kind in (7, 13):
        return draw.choice([0, 1, 2 ** 32 - 1])
    if kind == 8:
        return draw.random() < 0.5
    if kind == 9:
        return draw.choice(TEXTS)
    if kind == 12:
        return draw.choice(TEXTS).encode("utf-8") + draw.choice([b"", b"\xff\x80", b"\0" * 9])
    return draw.choice([value.number for value in field.enum_type.values] + [77])


def fill(message, draw, level=0):
    for field in message.DESCRIPTOR.fields:
        if draw.random() < (0.5 if level < 3 else 0.85):
            continue
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            container = getattr(message, field.name)
            for _ in range(draw.randint(0, 3)):
                if value.message_type is not None:
                    fill(container[scalar(key, draw)], draw, level + 1)
                else:
                    container[scalar(key, draw)] = scalar(value, draw)
        elif field.label == 3:
            for _ in range(draw.randint(0, 3)):
                if field.message_type is not None:
                    fill(getattr(message, field.name).add(), draw, level + 1)
                else:
                    getattr(message, field.name).append(scalar(field, draw))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), draw, level + 1)
        else:
            setattr(message, field.name, scalar(field, draw))


def require(same, what, ours, theirs):
    if not same:
        difference = difflib.unified_diff(str(ours).splitlines(), str(theirs).splitlines(), "ours", "theirs", lineterm="")
        raise AssertionError("%s differs\n%s" % (what, "\n".join(difference) or ours))


def compare(theirs, cls, draw):
    data = theirs.SerializeToString()
    ours = cls.FromString(data)
    require(str(ours) == str(theirs), "str", ours, theirs)
    back = ours.SerializeToString()
    require(type(theirs).FromString(back) == theirs, "bytes", ours, theirs)
    again = cls()
    again.CopyFrom(ours)
    require(again == ours, "copy", again, ours)
    require(cls.FromString(back) == ours and pickle.loads(pickle.dumps(ours)) == ours, "second reading", ours, theirs)
    options = {"as_one_line": draw.random() < 0.3, "use_short_repeated_primitives": draw.random() < 0.3}
    text = their_text.MessageToString(theirs, **options)
    mine = our_text.MessageToString(ours, **options)
    require(mine == text, "text", mine, text)
    duck = their_text.MessageToString(ours, **options)
    require(duck == text, "their text of our message", duck, text)
    for source in (text, str(theirs)):
        want = their_text.Parse(source, type(theirs)())
        require(str(our_text.Parse(source, cls())) == str(want), "parsed text", source, want)
        require(str(their_text.Parse(source, cls())) == str(want), "their parse into ours", source, want)
    require([field.name for field, _ in ours.ListFields()] == [field.name for field, _ in theirs.ListFields()], "fields", ours, theirs)
    for oneof in theirs.DESCRIPTOR.oneofs:
        if oneof.name in cls.DESCRIPTOR.oneofs_by_name:
            require(ours.WhichOneof(oneof.name) == theirs.WhichOneof(oneof.name), "oneof", ours, theirs)
    return len(data)


def merge(one, other, cls, their_class):
    first, second = cls.FromString(one.SerializeToString()), cls.FromString(other.SerializeToString())
    want = their_class()
    want.CopyFrom(one)
    want.MergeFrom(other)
    if len(one.SerializeToString()) % 2:
        str(first), str(second)
    first.MergeFrom(second)
    require(str(first) == str(want), "merge", first, want)
    joined = cls.FromString(one.SerializeToString() + other.SerializeToString())
    require(str(joined) == str(want), "joined bytes", joined, want)


def damage(theirs, cls, draw):
    """Damaged bytes never raise anything but a DecodeError."""
    data = bytearray(theirs.SerializeToString())
    for _ in range(3):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    from protobuf.wire import DecodeError

    try:
        str(cls.FromString(bytes(data[: draw.randint(0, len(data))])))
    except DecodeError:
        pass


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    draw = random.Random(seed)
    count = total = 0
    for name, their_class in sorted(their_classes().items()):
        cls = descriptor.message(name)._concrete_class
        for _ in range(rounds):
            one, other = their_class(), their_class()
            fill(one, draw)
            fill(other, draw)
            total += compare(one, cls, draw)
            merge(one, other, cls, their_class)
            damage(one, cls, draw)
            built = cls()
            fill(built, draw)
            require(cls.FromString(built.SerializeToString()) == built, "built", built, "")
            their_class.FromString(built.SerializeToString())
            count += 1
    print("%d messages of %d types agree (%d bytes)" % (count, len(their_classes()), total))


if __name__ == "__main__":
    main()
