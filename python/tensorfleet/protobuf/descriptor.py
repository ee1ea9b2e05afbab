"""Descriptions of messages and enumerations, read from the generated table when first asked for.

They have the attributes of Protocol Buffers' own descriptors that programs (and `google.protobuf.text_format`, where it is installed) look at."""

from . import _descriptors
from .wire import SCALARS, varint

_messages: dict = {}
_enums: dict = {}


class Options:
    """The only option anybody asks for: whether a message is the entry of a map."""

    def __init__(self, map_entry=False):
        self.map_entry = map_entry
        self.deprecated = False
        self.packed = True

    def HasExtension(self, extension):
        return False


class File:
    """The file a message comes from, as far as its syntax goes."""

    syntax = "proto3"
    name = "tensorfleet.proto"
    package = "tensorflow"
    extensions_by_name: dict = {}


class _Described:
    has_options = False
    is_extension = False
    file = File

    def GetOptions(self):
        return Options()


class EnumValueDescriptor(_Described):
    def __init__(self, name, number, index, enum):
        self.name, self.number, self.index, self.type = name, number, index, enum


class EnumDescriptor(_Described):
    """An enumeration: its values by name and by number."""

    def __init__(self, full_name):
        self.full_name, self.name = full_name, full_name.rpartition(".")[2]
        self.values = []
        for index, value in enumerate(_descriptors.ENUMS[full_name].split(";")):
            name, number = value.split(" ")
            self.values.append(EnumValueDescriptor(name, int(number), index, self))
        self.values_by_name = {value.name: value for value in self.values}
        self.values_by_number = {}
        for value in self.values:
            self.values_by_number.setdefault(value.number, value)

    @property
    def containing_type(self):
        return _containing(self.full_name)


class OneofDescriptor(_Described):
    def __init__(self, name, message):
        self.name, self.containing_type, self.fields = name, message, []
        self.full_name = message.full_name + "." + name

    @property
    def index(self):
        return self.containing_type.oneofs.index(self)


class FieldDescriptor(_Described):
    """A field. Messages keep their values under its number."""

    TYPE_DOUBLE, TYPE_FLOAT, TYPE_INT64, TYPE_UINT64, TYPE_INT32, TYPE_FIXED64, TYPE_FIXED32, TYPE_BOOL, TYPE_STRING = range(1, 10)
    TYPE_GROUP, TYPE_MESSAGE, TYPE_BYTES, TYPE_UINT32, TYPE_ENUM, TYPE_SFIXED32, TYPE_SFIXED64, TYPE_SINT32, TYPE_SINT64 = range(10, 19)
    CPPTYPE_INT32, CPPTYPE_INT64, CPPTYPE_UINT32, CPPTYPE_UINT64, CPPTYPE_DOUBLE = range(1, 6)
    CPPTYPE_FLOAT, CPPTYPE_BOOL, CPPTYPE_ENUM, CPPTYPE_STRING, CPPTYPE_MESSAGE = range(6, 11)
    LABEL_OPTIONAL, LABEL_REQUIRED, LABEL_REPEATED = 1, 2, 3
    has_default_value = False
    extension_scope = None

    def __init__(self, message, index, number, name, kind):
        kind, _, oneof = kind.partition("@")
        optional, kind = kind.endswith("?"), kind.rstrip("?")
        self.containing_type, self.index, self.number, self.name = message, index, int(number), name
        self.full_name = message.full_name + "." + name
        self.map = kind.startswith("{")
        self.repeated = self.map or kind.startswith("*")
        self.label = 3 if self.repeated else 1
        self._kind = kind.lstrip("*")
        self.containing_oneof = None
        if oneof:
            self.containing_oneof = next((known for known in message.oneofs if known.name == oneof), None)
            if self.containing_oneof is None:
                self.containing_oneof = OneofDescriptor(oneof, message)
                message.oneofs.append(self.containing_oneof)
            self.containing_oneof.fields.append(self)
        self.is_message = self.map or self._kind.startswith(".")
        self.scalar = None if self.is_message else SCALARS["enum" if self._kind.startswith("=") else self._kind]
        self.type = 11 if self.is_message else self.scalar.type
        self.cpp_type = 10 if self.is_message else self.scalar.cpp_type
        self.has_presence = not self.repeated and (self.is_message or optional or self.containing_oneof is not None)
        self.packed = self.repeated and not self.is_message and self.scalar.wire != 2
        wire = 2 if self.is_message or self.packed else self.scalar.wire
        self.tag = varint(self.number << 3 | wire)
        self._entry = None

    @property
    def message_type(self):
        if self.map:
            if self._entry is None:
                key, value = self._kind[1:-1].split(",")
                name = "".join(part[:1].upper() + part[1:] for part in self.name.split("_")) + "Entry"
                self._entry = Descriptor(self.containing_type.full_name + "." + name, "1 key %s;2 value %s" % (key, value), map_entry=True)
            return self._entry
        return message(self._kind[1:]) if self.is_message else None

    @property
    def enum_type(self):
        return enum(self._kind[1:]) if self._kind.startswith("=") else None

    @property
    def message_class(self):
        return self.message_type._concrete_class

    @property
    def key(self):
        return self.message_type.fields[0]

    @property
    def value(self):
        return self.message_type.fields[1]

    @property
    def default_value(self):
        if self.repeated:
            return []
        return None if self.is_message else self.scalar.default

    @property
    def camelcase_name(self):
        first, *rest = self.name.split("_")
        return first + "".join(part[:1].upper() + part[1:] for part in rest)

    json_name = camelcase_name

    def __repr__(self):
        return "<field %s>" % self.full_name


class Descriptor(_Described):
    """A message: its fields, and what is declared inside it."""

    is_extendable = False
    syntax = "proto3"
    extensions: list = []
    extensions_by_name: dict = {}

    def __init__(self, full_name, fields, map_entry=False):
        self.full_name, self.name = full_name, full_name.rpartition(".")[2]
        self.has_options, self._map_entry = map_entry, map_entry
        self.oneofs: list = []
        self.fields = [FieldDescriptor(self, index, *field.split(" ")) for index, field in enumerate(fields.split(";") if fields else ())]
        self.fields_by_name = {field.name: field for field in self.fields}
        self.fields_by_number = {field.number: field for field in self.fields}
        self._class = None

    def GetOptions(self):
        return Options(self._map_entry)

    @property
    def fields_by_camelcase_name(self):
        return {field.camelcase_name: field for field in self.fields}

    @property
    def oneofs_by_name(self):
        return {oneof.name: oneof for oneof in self.oneofs}

    @property
    def containing_type(self):
        return _containing(self.full_name)

    @property
    def nested_types(self):
        entries = [field.message_type for field in self.fields if field.map]
        return entries + [message(name) for name in nested_names(self.full_name, _descriptors.MESSAGES)]

    @property
    def nested_types_by_name(self):
        return {nested.name: nested for nested in self.nested_types}

    @property
    def enum_types(self):
        return [enum(name) for name in nested_names(self.full_name, _descriptors.ENUMS)]

    @property
    def enum_types_by_name(self):
        return {nested.name: nested for nested in self.enum_types}

    @property
    def enum_values_by_name(self):
        return {value.name: value for nested in self.enum_types for value in nested.values}

    @property
    def _concrete_class(self):
        if self._class is None:
            from .message import make_class

            make_class(self)
        return self._class

    def __repr__(self):
        return "<message %s>" % self.full_name


def nested_names(full_name, table):
    """The names in a table that are declared directly inside a message."""
    prefix = full_name + "."
    return [name for name in table if name.startswith(prefix) and "." not in name[len(prefix):]]


def _containing(full_name):
    outer = full_name.rpartition(".")[0]
    return message(outer) if outer in _descriptors.MESSAGES else None


def message(full_name):
    """The descriptor of a message by its full name, as `tensorflow.GraphDef`."""
    known = _messages.get(full_name)
    if known is None:
        known = _messages[full_name] = Descriptor(full_name, _descriptors.MESSAGES[full_name])
    return known


def enum(full_name):
    """The descriptor of an enumeration by its full name."""
    known = _enums.get(full_name)
    if known is None:
        known = _enums[full_name] = EnumDescriptor(full_name)
    return known
