"""How the fields of a message are written and read, one small function for each kind of field."""

import struct

from .containers import MessageMap, RepeatedMessage, RepeatedScalar, ScalarMap
from .wire import DecodeError, read_varint, skip, varint

# -- Writing ------------------------------------------------------------------------------------------------------------------------------------------


def _write_scalar(field, value, parts):
    parts.append(field.tag + field.scalar.encode(value))


def _write_message(field, value, parts):
    data = value.SerializeToString()
    parts += (field.tag, varint(len(data)), data)


def _write_repeated(field, values, parts):
    scalar = field.scalar
    if not field.packed:
        for value in values:
            parts.append(field.tag + scalar.encode(value))
        return
    items = values._values
    data = struct.pack("<%d%s" % (len(items), scalar.code), *items) if scalar.code else b"".join(map(scalar.encode, items))
    parts += (field.tag, varint(len(data)), data)


def _write_messages(field, values, parts):
    for value in values:
        _write_message(field, value, parts)


def _write_map(field, values, parts):
    key_field, value_field = field.key, field.value
    write = _write_message if value_field.is_message else _write_scalar
    for key in sorted(values):
        entry = []
        _write_scalar(key_field, key, entry)
        write(value_field, values._values[key], entry)
        data = b"".join(entry)
        parts += (field.tag, varint(len(data)), data)


WRITERS = {"scalar": _write_scalar, "message": _write_message, "repeated": _write_repeated, "messages": _write_messages, "map": _write_map}


# -- Reading ------------------------------------------------------------------------------------------------------------------------------------------


def _span(buffer, position, end):
    length, position = read_varint(buffer, position)
    if position + length > end:
        raise DecodeError("a value goes beyond its message")
    return position, position + length


def _value_reader(scalar):
    """A function that gives one value and the position after it."""
    if scalar.code:
        decode, size = scalar.decode, scalar.size
        return lambda buffer, position, end: (decode(buffer, position)[0], position + size)
    if scalar.name == "string":

        def text(buffer, position, end):
            start, stop = _span(buffer, position, end)
            return str(buffer[start:stop], "utf-8"), stop

        return text
    if scalar.name == "bytes":

        def data(buffer, position, end):
            start, stop = _span(buffer, position, end)
            return bytes(buffer[start:stop]), stop

        return data
    decode = scalar.decode

    def integer(buffer, position, end):
        value, position = read_varint(buffer, position)
        return decode(value), position

    return integer


def _read_scalar(field):
    number, value_of = field.number, _value_reader(field.scalar)
    oneof, presence = field.containing_oneof, field.has_presence

    def read(message, fields, buffer, position, end):
        value, position = value_of(buffer, position, end)
        if oneof is not None:
            message._clear_oneof(field)
        if value or presence or str(value) == "-0.0":
            fields[number] = value
        else:
            fields.pop(number, None)
        return position

    return read


def _read_message(field):
    number, oneof = field.number, field.containing_oneof

    def read(message, fields, buffer, position, end):
        start, stop = _span(buffer, position, end)
        child = fields.get(number)
        if child is None or child._owner is not None and not child._fields:
            if oneof is not None:
                message._clear_oneof(field)
            if child is None:
                child = fields[number] = field.message_class()
            child._owner = None
            child._raw = (buffer, start, stop)
        else:
            if child._raw is not None:
                child._read()
            child._merge_bytes(buffer, start, stop)
        return stop

    return read


def _read_messages(field):
    number = field.number

    def read(message, fields, buffer, position, end):
        start, stop = _span(buffer, position, end)
        container = fields.get(number)
        if container is None:
            container = fields[number] = RepeatedMessage(message, field)
        child = field.message_class()
        child._raw = (buffer, start, stop)
        container._values.append(child)
        return stop

    return read


def _container(message, fields, field):
    container = fields.get(field.number)
    if container is None:
        container = fields[field.number] = RepeatedScalar(message, field)
    return container._values


def _read_one_of_many(field):
    value_of = _value_reader(field.scalar)

    def read(message, fields, buffer, position, end):
        value, position = value_of(buffer, position, end)
        _container(message, fields, field).append(value)
        return position

    return read


def _read_packed(field):
    scalar = field.scalar

    def read(message, fields, buffer, position, end):
        position, stop = _span(buffer, position, end)
        values = _container(message, fields, field)
        if scalar.code:
            values.extend(struct.unpack("<%d%s" % ((stop - position) // scalar.size, scalar.code), buffer[position:stop]))
            return stop
        decode = scalar.decode
        while position < stop:
            value, position = read_varint(buffer, position)
            values.append(decode(value))
        if position != stop:
            raise DecodeError("a packed value goes beyond its field")
        return stop

    return read


def _read_map(field):
    key_field, value_field = field.key, field.value
    key_tag, value_tag = key_field.tag[0], value_field.tag[0]
    key_of = _value_reader(key_field.scalar)
    value_of = None if value_field.is_message else _value_reader(value_field.scalar)

    def read(message, fields, buffer, position, end):
        position, stop = _span(buffer, position, end)
        key, value = key_field.scalar.default, None
        while position < stop:
            tag, position = read_varint(buffer, position)
            if tag == key_tag:
                key, position = key_of(buffer, position, stop)
            elif tag == value_tag and value_of is not None:
                value, position = value_of(buffer, position, stop)
            elif tag == value_tag:
                start, position = _span(buffer, position, stop)
                if value is None:
                    value = value_field.message_class()
                    value._raw = (buffer, start, position)
                else:
                    value._read() if value._raw is not None else None
                    value._merge_bytes(buffer, start, position)
            else:
                position = skip(buffer, position, stop, tag)
        if position != stop:
            raise DecodeError("an entry goes beyond its map")
        if value is None:
            value = value_field.message_class() if value_of is None else value_field.scalar.default
        container = fields.get(field.number)
        if container is None:
            container = fields[field.number] = (MessageMap if value_of is None else ScalarMap)(message, field)
        container._values[key] = value
        return stop

    return read


def readers(described_message):
    """The function for each tag that reads its value into a message."""
    readers = {}
    for field in described_message.fields:
        tag = read_varint(field.tag, 0)[0]
        if field.map:
            field.writer, readers[tag] = "map", _read_map(field)
        elif field.is_message and field.repeated:
            field.writer, readers[tag] = "messages", _read_messages(field)
        elif field.is_message:
            field.writer, readers[tag] = "message", _read_message(field)
        elif field.repeated:
            field.writer = "repeated"
            readers[field.number << 3 | field.scalar.wire] = _read_one_of_many(field)
            if field.packed:
                readers[tag] = _read_packed(field)
        else:
            field.writer, readers[tag] = "scalar", _read_scalar(field)
    return readers
