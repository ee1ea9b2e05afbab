"""Values of the Protocol Buffers wire format: how each scalar type is checked, written and read."""

import struct

MASK64 = (1 << 64) - 1
_SMALL = [bytes((n,)) for n in range(128)]


class Error(Exception):
    """What messages raise."""


class DecodeError(Error):
    """The bytes are not a message of this type."""


class EncodeError(Error):
    """The message cannot be written."""


def varint(value):
    """The variable-length form of an unsigned integer."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer, position):
    """The integer at a position, and the position after it. Running off the buffer is an `IndexError`."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    result = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & MASK64, position
        shift += 7
        if shift >= 70:
            raise DecodeError("a variable-length integer has more than ten bytes")


def skip(buffer, position, end, tag, depth=0):
    """The position after the value of a field nobody knows."""
    kind = tag & 7
    if tag >> 3 == 0 or depth > 100:
        raise DecodeError("bad field number or too many levels")
    if kind == 0:
        return read_varint(buffer, position)[1]
    if kind == 1:
        return position + 8
    if kind == 2:
        length, position = read_varint(buffer, position)
        return position + length
    if kind == 5:
        return position + 4
    if kind == 3:
        while position < end:
            inner, position = read_varint(buffer, position)
            if inner & 7 == 4:
                if inner >> 3 != tag >> 3:
                    break
                return position
            position = skip(buffer, position, end, inner, depth + 1)
    raise DecodeError("bad wire type")


def type_name(value):
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" or "numpy" not in kind.__module__ else "numpy." + kind.__name__


def _wrong(value, expected):
    return TypeError("%.1024r has type %s, but expected one of: %s" % (value, type_name(value), expected))


def _integer(low, high):
    def check(value):
        if type(value) is not int:
            try:
                value = value.__index__()
            except (AttributeError, TypeError):
                raise _wrong(value, "int") from None
        if not low <= value <= high:
            raise ValueError("Value out of range: %d" % value)
        return value

    return check


def _boolean(value):
    if isinstance(value, (str, bytes)) or value is None:
        raise _wrong(value, "int, bool")
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise _wrong(value, "int, bool") from None


def _double(value):
    if isinstance(value, (str, bytes)):
        raise _wrong(value, "int, float")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(value, "int, float") from None


_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def float32(value):
    """The nearest number that four bytes can hold."""
    try:
        return _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _float(value):
    return float32(_double(value))


def _string(value):
    if type(value) is str:
        return value
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError("%r has type str, but isn't valid UTF-8 encoding. Non-UTF-8 strings must be converted to unicode objects before being added." % value) from None
    if isinstance(value, str):
        return str(value)
    raise _wrong(value, "bytes, unicode")


def _bytes(value):
    if isinstance(value, bytes):
        return bytes(value)
    raise _wrong(value, "bytes")


def _signed(bits):
    half, whole, mask = 1 << (bits - 1), 1 << bits, (1 << bits) - 1

    def decode(value):
        value &= mask
        return value - whole if value >= half else value

    return decode


def _zigzag(value):
    return (value >> 1) ^ -(value & 1)


def _fixed(code):
    form = struct.Struct("<" + code)
    return form.pack, form.unpack_from


_INT32, _INT64 = _integer(-(1 << 31), (1 << 31) - 1), _integer(-(1 << 63), (1 << 63) - 1)
_UINT32, _UINT64 = _integer(0, (1 << 32) - 1), _integer(0, MASK64)


class Scalar:
    """A scalar type: its number and class in descriptors, its wire type, and how it is checked and converted."""

    __slots__ = ("name", "type", "cpp_type", "wire", "default", "check", "encode", "decode", "code", "size")

    def __init__(self, name, number, cpp_type, wire, default, check, encode=None, decode=None, code=None):
        self.name, self.type, self.cpp_type, self.wire = name, number, cpp_type, wire
        self.default, self.check, self.encode, self.decode = default, check, encode, decode
        self.code, self.size = code, struct.calcsize("<" + code) if code else 0
        if code:
            self.encode, self.decode = _fixed(code)


def _length_delimited(value):
    return varint(len(value)) + value


def _text(value):
    value = value.encode("utf-8")
    return varint(len(value)) + value


def _varint64(value):
    return varint(value & MASK64)


SCALARS = {
    kind.name: kind
    for kind in (
        Scalar("double", 1, 5, 1, 0.0, _double, code="d"),
        Scalar("float", 2, 6, 5, 0.0, _float, code="f"),
        Scalar("int64", 3, 2, 0, 0, _INT64, _varint64, _signed(64)),
        Scalar("uint64", 4, 4, 0, 0, _UINT64, varint, int),
        Scalar("int32", 5, 1, 0, 0, _INT32, _varint64, _signed(32)),
        Scalar("fixed64", 6, 4, 1, 0, _UINT64, code="Q"),
        Scalar("fixed32", 7, 3, 5, 0, _UINT32, code="I"),
        Scalar("bool", 8, 7, 0, False, _boolean, varint, bool),
        Scalar("string", 9, 9, 2, "", _string, _text),
        Scalar("bytes", 12, 9, 2, b"", _bytes, _length_delimited),
        Scalar("uint32", 13, 3, 0, 0, _UINT32, varint, lambda value: value & 0xFFFFFFFF),
        Scalar("enum", 14, 8, 0, 0, _INT32, _varint64, _signed(32)),
        Scalar("sfixed32", 15, 1, 5, 0, _INT32, code="i"),
        Scalar("sfixed64", 16, 2, 1, 0, _INT64, code="q"),
        Scalar("sint32", 17, 1, 0, 0, _INT32, lambda value: varint((value << 1 ^ value >> 31) & 0xFFFFFFFF), lambda value: _zigzag(value & 0xFFFFFFFF)),
        Scalar("sint64", 18, 2, 0, 0, _INT64, lambda value: varint((value << 1 ^ value >> 63) & MASK64), _zigzag),
    )
}
