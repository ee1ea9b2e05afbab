"""Messages in pure Python, with the methods of Protocol Buffers' own.

A message that was read keeps its bytes and looks at them when one of its fields is first asked for; a sub-message nobody touches is written back as
it came. So a graph of many megabytes is read at the cost of its top level. The other side: a fault inside a sub-message is a `DecodeError` when
that sub-message is used, not when the whole is parsed."""

import struct

from . import _descriptors, descriptor
from .codec import WRITERS, readers
from .containers import MessageMap, RepeatedMessage, RepeatedScalar, ScalarMap, described
from .wire import DecodeError, EncodeError, Error, read_varint, skip

__all__ = ["DecodeError", "EncodeError", "Error", "Message", "EnumTypeWrapper", "make_class"]


class Message:
    """The base of all messages.

    `_fields` holds values by field number. `_raw` is the part of a buffer that still has to be read. `_owner` is set while a sub-message that was made by looking
    at an unset field is still unset: its first change tells the owner."""

    __slots__ = ("_fields", "_raw", "_unknown", "_owner", "__weakref__")
    DESCRIPTOR = None

    def __init__(self, *arguments, **values):
        self._fields, self._raw, self._unknown, self._owner = {}, None, b"", None
        if arguments:
            raise TypeError("No positional arguments allowed")
        if values:
            self._assign(values)

    def _assign(self, values):
        fields = self.DESCRIPTOR.fields_by_name
        for name, value in values.items():
            field = fields.get(name)
            if field is None:
                raise ValueError('Protocol message %s has no "%s" field.' % (self.DESCRIPTOR.name, name))
            if value is None:
                continue
            if field.map:
                container = getattr(self, name)
                for key in value:
                    if field.value.is_message:
                        container[key].MergeFrom(value[key])
                    else:
                        container[key] = value[key]
            elif field.repeated and field.is_message:
                container = getattr(self, name)
                for item in value:
                    if isinstance(item, dict):
                        container.add(**item)
                    else:
                        container.append(item)
            elif field.repeated:
                getattr(self, name).extend([_enum_number(field, item) for item in value] if field.type == 14 else value)
            elif field.is_message:
                child = getattr(self, name)
                if isinstance(value, dict):
                    child._assign(value)
                else:
                    child.MergeFrom(value)
                child.SetInParent()
            else:
                setattr(self, name, _enum_number(field, value) if field.type == 14 else value)

    # -- Presence -----------------------------------------------------------------------------------------------------------------------------------

    def _touch(self):
        """This message is set from now on."""
        if self._owner is not None:
            owner, field = self._owner
            self._owner = None
            if field.containing_oneof is not None:
                owner._clear_oneof(field)
                owner._fields[field.number] = self
            owner._touch()

    def SetInParent(self):
        """Marks this sub-message as set even though nothing in it is."""
        self._touch()

    def _clear_oneof(self, field):
        for other in field.containing_oneof.fields:
            if other is not field:
                self._fields.pop(other.number, None)

    def _read(self):
        buffer, start, end = self._raw
        self._raw = None
        self._merge_bytes(buffer, start, end)

    def _field(self, name, text='Protocol message %s has no field %s.'):
        if isinstance(name, bytes):
            name = name.decode()
        field = self.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(text % (self.DESCRIPTOR.name, name) if text.count("%s") == 2 else text % name)
        return field

    def HasField(self, name):
        """Whether a sub-message, or a member of a oneof (or any member of it), is set."""
        if name in self.DESCRIPTOR.oneofs_by_name:
            return self.WhichOneof(name) is not None
        field = self._field(name)
        if field.repeated:
            raise ValueError('Protocol message %s has no singular "%s" field.' % (self.DESCRIPTOR.name, name))
        if not field.has_presence:
            raise ValueError('Can\'t test non-optional, non-submessage field "%s.%s" for presence in proto3.' % (self.DESCRIPTOR.name, name))
        if self._raw is not None:
            self._read()
        return self._is_set(field.number)

    def _is_set(self, number):
        value = self._fields.get(number)
        return value is not None and (not isinstance(value, Message) or value._owner is None)

    def WhichOneof(self, name):
        """The name of the member of a oneof that is set, or None."""
        oneof = self.DESCRIPTOR.oneofs_by_name.get(name)
        if oneof is None:
            raise ValueError('Protocol message has no oneof "%s" field.' % name)
        if self._raw is not None:
            self._read()
        for field in oneof.fields:
            if self._is_set(field.number):
                return field.name
        return None

    def ClearField(self, name):
        """Takes a field, or whatever is set of a oneof, back to its default."""
        if self._raw is not None:
            self._read()
        oneof = self.DESCRIPTOR.oneofs_by_name.get(name)
        for field in oneof.fields if oneof is not None else (self._field(name, 'Protocol message has no "%s" field.'),):
            self._fields.pop(field.number, None)
        self._touch()

    def Clear(self):
        """Takes every field back to its default."""
        self._fields, self._raw, self._unknown = {}, None, b""
        self._touch()

    def ListFields(self):
        """The fields that are set, with their values, by number."""
        if self._raw is not None:
            self._read()
        fields, by_number = self._fields, self.DESCRIPTOR.fields_by_number
        listed = []
        for number in sorted(fields):
            value, field = fields[number], by_number[number]
            if (len(value) > 0 if field.repeated else not field.is_message or value._owner is None):
                listed.append((field, value))
        return listed

    # -- Copies and comparison ----------------------------------------------------------------------------------------------------------------------

    def _same_class(self, other, method):
        if not isinstance(other, type(self)):
            raise TypeError("Parameter to %s() must be instance of same class: expected %s got %s." % (method, self.DESCRIPTOR.full_name, described(other)))

    def MergeFrom(self, other):
        """Adds another message's fields: single values replace ours, repeated ones come after ours."""
        self._same_class(other, "MergeFrom")
        if other._raw is not None:
            if self._raw is None and not self._fields and not self._unknown:
                self._raw = other._raw
            else:
                if self._raw is not None:
                    self._read()
                self._merge_bytes(*other._raw)
            self._touch()
            return
        if self._raw is not None:
            self._read()
        for field, value in other.ListFields():
            if field.repeated:
                getattr(self, field.name).MergeFrom(value)
            elif field.is_message:
                child = getattr(self, field.name)
                child.MergeFrom(value)
                child._touch()
            else:
                if field.containing_oneof is not None:
                    self._clear_oneof(field)
                self._fields[field.number] = value
        self._unknown += other._unknown
        self._touch()

    def CopyFrom(self, other):
        """Becomes a copy of another message."""
        if other is self:
            return
        self._same_class(other, "CopyFrom")
        self.Clear()
        self.MergeFrom(other)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        if self._raw is not None and self._raw == other._raw:
            return True
        ours, theirs = self.ListFields(), other.ListFields()
        return len(ours) == len(theirs) and self._unknown == other._unknown and all(
            one[0] is two[0] and one[1] == two[1] for one, two in zip(ours, theirs)
        )

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    def __deepcopy__(self, memo):
        copy = type(self)()
        copy.MergeFrom(self)
        return copy

    def __copy__(self):
        return self.__deepcopy__(None)

    def __reduce__(self):
        return _from_bytes, (self.DESCRIPTOR.full_name, self.SerializeToString())

    def __str__(self):
        from .text_format import printed

        return printed(self)

    def __repr__(self):
        return str(self)

    # -- The wire -----------------------------------------------------------------------------------------------------------------------------------

    def SerializeToString(self, deterministic=None):
        """The message as bytes. Maps are written by key, so that equal messages give equal bytes."""
        if self._raw is not None:
            buffer, start, end = self._raw
            return bytes(buffer[start:end])
        parts = []
        for field, value in self.ListFields():
            WRITERS[field.writer](field, value, parts)
        parts.append(self._unknown)
        return b"".join(parts)

    SerializePartialToString = SerializeToString

    def ByteSize(self):
        """How many bytes `SerializeToString` gives."""
        return len(self.SerializeToString())

    def MergeFromString(self, data):
        """Reads bytes into this message, as if they came after what it has. Returns how many were read."""
        data = _as_bytes(data)
        if self._raw is not None:
            self._read()
        self._merge_bytes(data, 0, len(data))
        self._touch()
        return len(data)

    def ParseFromString(self, data):
        """Becomes the message that the bytes describe. Returns how many were read."""
        data = _as_bytes(data)
        self.Clear()
        return self.MergeFromString(data)

    MergePartialFromString = MergeFromString
    ParsePartialFromString = ParseFromString

    @classmethod
    def FromString(cls, data):
        """The message that the bytes describe."""
        message = cls()
        message.ParseFromString(data)
        return message

    def _merge_bytes(self, buffer, position, end):
        fields, readers = self._fields, self._readers
        try:
            while position < end:
                start = position
                tag = buffer[position]
                position += 1
                if tag >= 0x80:
                    tag, position = read_varint(buffer, start)
                reader = readers.get(tag)
                if reader is not None:
                    position = reader(self, fields, buffer, position, end)
                else:
                    position = skip(buffer, position, end, tag)
                    if position <= end:
                        self._unknown += bytes(buffer[start:position])
        except (IndexError, struct.error, UnicodeDecodeError, DecodeError):
            position = end + 1
        if position != end:
            raise DecodeError("Error parsing message with type '%s'" % self.DESCRIPTOR.full_name)

    def DiscardUnknownFields(self):
        """Forgets fields that came in with numbers we do not know, here and below."""
        for field, value in self.ListFields():
            if field.is_message:
                messages = [value] if not field.repeated else value.values() if field.map else value
                for message in messages:
                    if isinstance(message, Message):
                        message.DiscardUnknownFields()
        self._unknown = b""

    def IsInitialized(self, errors=None):
        """Always true: no message here has required fields."""
        return True

    def FindInitializationErrors(self):
        return []


def _as_bytes(data):
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError("a bytes-like object is required, not '%s'" % type(data).__name__)


def _enum_number(field, value):
    """Constructors also take the name of an enumeration's value."""
    if isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError("unknown enum label: %r" % value)
        return known.number
    return value


def _from_bytes(full_name, data):
    return descriptor.message(full_name)._concrete_class.FromString(data)


# -- Classes ------------------------------------------------------------------------------------------------------------------------------------------


def _scalar_property(field):
    number, default, check = field.number, field.scalar.default, field.scalar.check
    oneof, presence = field.containing_oneof, field.has_presence

    def get(self):
        if self._raw is not None:
            self._read()
        return self._fields.get(number, default)

    def set(self, value):
        value = check(value)
        if self._raw is not None:
            self._read()
        if oneof is not None:
            self._clear_oneof(field)
        if value or presence or str(value) == "-0.0":
            self._fields[number] = value
        else:
            self._fields.pop(number, None)
        if self._owner is not None:
            self._touch()

    return property(get, set)


def _message_property(field):
    number = field.number

    def get(self):
        if self._raw is not None:
            self._read()
        child = self._fields.get(number)
        if child is None:
            child = field.message_class()
            child._owner = (self, field)
            self._fields[number] = child
        return child

    def set(self, value):
        raise AttributeError('Assignment not allowed to field "%s" in protocol message object.' % field.name)

    return property(get, set)


def _container_property(field):
    number = field.number
    kind = (MessageMap if field.value.is_message else ScalarMap) if field.map else RepeatedMessage if field.is_message else RepeatedScalar

    def get(self):
        if self._raw is not None:
            self._read()
        container = self._fields.get(number)
        if container is None:
            container = self._fields[number] = kind(self, field)
        return container

    def set(self, value):
        raise AttributeError('Assignment not allowed to repeated field "%s" in protocol message object.' % field.name)

    return property(get, set)


class _Nested:
    """A class inside a class, made when it is first named."""

    def __init__(self, described_message):
        self._described = described_message

    def __get__(self, instance, owner):
        return self._described()._concrete_class


class EnumTypeWrapper:
    """An enumeration: names to numbers and back."""

    def __init__(self, enum):
        self.DESCRIPTOR = enum
        for value in enum.values:
            setattr(self, value.name, value.number)

    def Name(self, number):
        value = self.DESCRIPTOR.values_by_number.get(number)
        if value is None:
            if not hasattr(number, "__index__"):
                raise TypeError("Enum value for %s must be an int, but got %s %r." % (self.DESCRIPTOR.name, type(number), number))
            raise ValueError("Enum %s has no name defined for value %r" % (self.DESCRIPTOR.name, number))
        return value.name

    def Value(self, name):
        value = self.DESCRIPTOR.values_by_name.get(name)
        if value is None:
            raise ValueError("Enum %s has no value defined for name %r" % (self.DESCRIPTOR.name, name))
        return value.number

    def keys(self):
        return [value.name for value in self.DESCRIPTOR.values]

    def values(self):
        return [value.number for value in self.DESCRIPTOR.values]

    def items(self):
        return [(value.name, value.number) for value in self.DESCRIPTOR.values]


def _pack(self, message, type_url_prefix="type.googleapis.com/", deterministic=None):
    """Puts a message into this `Any`."""
    self.type_url = type_url_prefix.rstrip("/") + "/" + message.DESCRIPTOR.full_name
    self.value = message.SerializeToString()


def _type_name(self):
    """The full name of the message inside."""
    return self.type_url.rpartition("/")[2]


def _is(self, described_message):
    """Whether a message of this type is inside."""
    return "/" in self.type_url and self.TypeName() == described_message.full_name


def _unpack(self, message):
    """Reads what is inside into a message, if it is of that type."""
    if not self.Is(message.DESCRIPTOR):
        return False
    message.ParseFromString(self.value)
    return True


def make_class(described_message):
    """Makes the class of a message, once."""
    members = {"__slots__": (), "DESCRIPTOR": described_message, "__module__": "tensorfleet.protobuf", "_readers": readers(described_message)}
    members["__qualname__"] = described_message.full_name.partition(".")[2]
    for field in described_message.fields:
        members[field.name.upper() + "_FIELD_NUMBER"] = field.number
        members[field.name] = _container_property(field) if field.repeated else _message_property(field) if field.is_message else _scalar_property(field)
        if field.map:
            members[field.message_type.name] = _Nested(lambda field=field: field.message_type)
    full_name = described_message.full_name
    for name in descriptor.nested_names(full_name, _descriptors.MESSAGES):
        members[name.rpartition(".")[2]] = _Nested(lambda name=name: descriptor.message(name))
    for name in descriptor.nested_names(full_name, _descriptors.ENUMS):
        wrapper = EnumTypeWrapper(descriptor.enum(name))
        members[wrapper.DESCRIPTOR.name] = wrapper
        members.update(wrapper.items())
    if full_name == "google.protobuf.Any":
        members.update(Pack=_pack, Unpack=_unpack, Is=_is, TypeName=_type_name)
    described_message._class = type(described_message.name, (Message,), members)
    return described_message._class
