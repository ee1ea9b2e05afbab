"""Repeated fields and maps of a message: sequences and mappings that check what is put in, and tell their message that it is no longer empty."""

from collections.abc import Iterable, MutableMapping, MutableSequence

from .wire import type_name


class _Repeated(MutableSequence):
    __slots__ = ("_message", "_field", "_values")

    def __init__(self, message, field):
        self._message, self._field, self._values = message, field, []

    def _changed(self):
        if self._message._owner is not None:
            self._message._touch()

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return iter(self._values)

    def __getitem__(self, index):
        try:
            return self._values[index]
        except IndexError:
            raise IndexError("list index (%d) out of range" % index) from None

    def __delitem__(self, index):
        del self._values[index]
        self._changed()

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, _Repeated):
            return self._values == other._values
        if isinstance(other, (list, tuple)):
            return self._values == list(other)
        return NotImplemented

    __hash__ = None

    def __repr__(self):
        return repr(self._values)

    def pop(self, index=-1):
        value = self._values.pop(index)
        self._changed()
        return value

    def remove(self, value):
        self._values.remove(value)
        self._changed()

    def reverse(self):
        self._values.reverse()

    def sort(self, *arguments, **options):
        if "sort_function" in options:
            options["cmp"] = options.pop("sort_function")
        self._values.sort(*arguments, **options)

    def __deepcopy__(self, memo):
        copy = type(self)(type(self._message)(), self._field)
        copy.MergeFrom(self)
        return copy

    def __reduce__(self):
        return list, (list(self._values),)


class RepeatedScalar(_Repeated):
    """A repeated field of numbers, strings or bytes."""

    __slots__ = ()

    def append(self, value):
        self._values.append(self._field.scalar.check(value))
        self._changed()

    def insert(self, index, value):
        self._values.insert(index, self._field.scalar.check(value))
        self._changed()

    def extend(self, values):
        if values is None:
            return
        if not isinstance(values, Iterable) and not hasattr(values, "__getitem__"):
            raise TypeError("Value must be iterable")
        check = self._field.scalar.check
        values = [check(value) for value in values]
        self._values.extend(values)
        if values:
            self._changed()

    def MergeFrom(self, other):
        if other._values:
            self._values.extend(other._values)
            self._changed()

    def __setitem__(self, index, value):
        check = self._field.scalar.check
        self._values[index] = [check(item) for item in value] if isinstance(index, slice) else check(value)
        self._changed()

    def __add__(self, other):
        return self._values + list(other)

    def __radd__(self, other):
        return list(other) + self._values


class RepeatedMessage(_Repeated):
    """A repeated field of messages."""

    __slots__ = ()

    def add(self, **values):
        """A new last element, with these fields, which is returned."""
        message = self._field.message_class(**values)
        self._values.append(message)
        self._changed()
        return message

    def _copy(self, message):
        kind = self._field.message_class
        if not isinstance(message, kind):
            raise TypeError("Parameter to MergeFrom() must be instance of same class: expected %s got %s." % (kind.DESCRIPTOR.full_name, described(message)))
        copy = kind()
        copy.MergeFrom(message)
        return copy

    def append(self, message):
        self._values.append(self._copy(message))
        self._changed()

    def insert(self, index, message):
        self._values.insert(index, self._copy(message))
        self._changed()

    def extend(self, messages):
        if messages is None:
            return
        messages = [self._copy(message) for message in messages]
        self._values.extend(messages)
        if messages:
            self._changed()

    def MergeFrom(self, other):
        self.extend(other._values)

    def __setitem__(self, index, value):
        raise TypeError("'RepeatedCompositeContainer' object does not support item assignment")


def described(value):
    """How an error names the type of a value: messages by their full name."""
    descriptor = getattr(type(value), "DESCRIPTOR", None)
    return descriptor.full_name if descriptor is not None else type_name(value)


class _Map(MutableMapping):
    __slots__ = ("_message", "_field", "_values", "_key")

    def __init__(self, message, field):
        self._message, self._field, self._values = message, field, {}
        self._key = field.key.scalar.check

    _changed = _Repeated._changed

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return iter(self._values)

    def __contains__(self, key):
        return self._key(key) in self._values

    def get(self, key, default=None):
        return self._values.get(self._key(key), default)

    def __delitem__(self, key):
        del self._values[self._key(key)]
        self._changed()

    def clear(self):
        self._values.clear()
        self._changed()

    def __eq__(self, other):
        if isinstance(other, _Map):
            return self._values == other._values
        return self._values == other if isinstance(other, dict) else NotImplemented

    __hash__ = None

    def __repr__(self):
        return repr(self._values)

    def keys(self):
        return self._values.keys()

    def values(self):
        return self._values.values()

    def items(self):
        return self._values.items()

    def GetEntryClass(self):
        return self._field.message_type._concrete_class

    __deepcopy__ = _Repeated.__deepcopy__

    def __reduce__(self):
        return dict, (dict(self._values),)


class ScalarMap(_Map):
    """A map to numbers, strings or bytes. Reading a missing key puts the default there, as Protocol Buffers' maps do."""

    __slots__ = ()

    def __getitem__(self, key):
        key = self._key(key)
        if key not in self._values:
            self._values[key] = self._field.value.scalar.default
            self._changed()
        return self._values[key]

    def __setitem__(self, key, value):
        self._values[self._key(key)] = self._field.value.scalar.check(value)
        self._changed()

    def MergeFrom(self, other):
        if other._values:
            self._values.update(other._values)
            self._changed()


class MessageMap(_Map):
    """A map to messages. They are made by reading their key, never assigned."""

    __slots__ = ()

    def __getitem__(self, key):
        key = self._key(key)
        message = self._values.get(key)
        if message is None:
            message = self._values[key] = self._field.value.message_class()
            self._changed()
        return message

    get_or_create = __getitem__

    def __setitem__(self, key, value):
        raise ValueError("Direct assignment of submessage not allowed")

    def MergeFrom(self, other):
        for key, value in other._values.items():
            copy = self._field.value.message_class()
            copy.MergeFrom(value)
            self._values[key] = copy
        if other._values:
            self._changed()
