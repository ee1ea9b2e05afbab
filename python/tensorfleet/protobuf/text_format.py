"""The text form of messages: `MessageToString`, `Parse` and `Merge`, as `google.protobuf.text_format` has them.

The package never puts itself in the place of `google.protobuf`: a program that imports that needs it installed. Its functions work on our messages as
far as they ask for attributes only (`text_format`, `json_format`), because our descriptors have the same ones."""

import re

from . import descriptor
from .wire import Error, float32

__all__ = ["MessageToString", "MessageToBytes", "PrintMessage", "PrintField", "PrintFieldValue", "Parse", "ParseLines", "Merge", "MergeLines", "ParseError"]


class ParseError(Error):
    """The text is not a message of this type. Knows line and column, counted from one."""

    def __init__(self, message=None, line=None, column=None):
        if message is not None and line is not None:
            place = str(line) if column is None else "%d:%d" % (line, column)
            super().__init__("%s : %s" % (place, message))
        else:
            super().__init__(message)
        self._line, self._column = line, column

    def GetLine(self):
        return self._line

    def GetColumn(self):
        return self._column


# -- Printing -----------------------------------------------------------------------------------------------------------------------------------------

_ESCAPES = {7: "\\a", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
_ESCAPES.pop(7)


def _escape(data, as_utf8=False):
    if as_utf8:
        return "".join(_ESCAPES.get(ord(c), c if ord(c) >= 32 and ord(c) != 127 else "\\%03o" % ord(c)) for c in data.decode("utf-8", "surrogateescape"))
    return "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else "\\%03o" % b) for b in data)


def _shortest(value):
    """The shortest decimal number that is this one when four bytes hold it."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    for precision in range(6, 10):
        short = float("%.*g" % (precision, value))
        if float32(short) == value:
            return short
    return value


class _Printer:
    def __init__(self, exact_floats=False, as_one_line=False, as_utf8=False, use_short_repeated_primitives=False, pointy_brackets=False,
                 use_index_order=False, float_format=None, double_format=None, use_field_number=False, indent=0, whole_entries=False):
        self.exact, self.one_line, self.utf8, self.short = exact_floats, as_one_line, as_utf8, use_short_repeated_primitives
        self.open, self.close = "<>" if pointy_brackets else "{}"
        self.index_order, self.numbers = use_index_order, use_field_number
        self.float_format, self.double_format = float_format, double_format or float_format
        self.level, self.out, self.whole_entries = indent, [], whole_entries

    def line(self, text):
        self.out.append(text + " " if self.one_line else " " * self.level + text + "\n")

    def message(self, message):
        fields = message.ListFields()
        if self.index_order:
            fields.sort(key=lambda item: item[0].index)
        for field, value in fields:
            if field.map:
                entry_class = value.GetEntryClass()
                for key in sorted(value):
                    if self.whole_entries:
                        self.entry(field, key, value.get(key))
                    else:
                        self.field(field, entry_class(key=key, value=value.get(key)))
            elif field.repeated and self.short and not field.is_message and field.cpp_type != 9:
                self.line("%s: [%s]" % (self.name(field), ", ".join(self.scalar(field, item) for item in value)))
            else:
                for item in value if field.repeated else (value,):
                    self.field(field, item)

    def name(self, field):
        return str(field.number) if self.numbers else field.name

    def block(self, field, body):
        self.line("%s %s" % (self.name(field), self.open))
        self.level += 2
        body()
        self.level -= 2
        self.line(self.close)

    def field(self, field, value):
        if field.is_message:
            self.block(field, lambda: self.message(value))
        else:
            self.line("%s: %s" % (self.name(field), self.scalar(field, value)))

    def entry(self, field, key, value):
        self.block(field, lambda: (self.field(field.key, key), self.field(field.value, value)))

    def scalar(self, field, value):
        if field.type == 14:
            known = field.enum_type.values_by_number.get(value)
            return known.name if known is not None else str(value)
        if field.type == 9:
            return '"%s"' % _escape(value.encode("utf-8"), self.utf8)
        if field.type == 12:
            return '"%s"' % _escape(value)
        if field.type == 8:
            return "true" if value else "false"
        if field.type == 2:
            return format(value, self.float_format) if self.float_format else str(value if self.exact else _shortest(value))
        if field.type == 1 and self.double_format:
            return format(value, self.double_format)
        return str(value)

    def text(self):
        return "".join(self.out)


def printed(message):
    """What `str(message)` gives: all digits of floats, and both parts of every map entry."""
    printer = _Printer(exact_floats=True, whole_entries=True)
    printer.message(message)
    return printer.text()


def MessageToString(message, as_utf8=False, as_one_line=False, use_short_repeated_primitives=False, pointy_brackets=False, use_index_order=False,
                    float_format=None, double_format=None, use_field_number=False, descriptor_pool=None, indent=0, message_formatter=None,
                    print_unknown_fields=False, force_colon=False):
    """The message as text."""
    if hasattr(message, "DESCRIPTOR") and not hasattr(message, "_readers"):
        raise TypeError("this text_format prints tensorfleet's messages; %r has its own" % type(message).__name__)
    printer = _Printer(False, as_one_line, as_utf8, use_short_repeated_primitives, pointy_brackets, use_index_order, float_format, double_format,
                       use_field_number, indent)
    printer.message(message)
    return printer.text().rstrip() if as_one_line else printer.text()


def MessageToBytes(message, **options):
    """The message as text, in bytes."""
    text = MessageToString(message, **options)
    return text.encode("utf-8" if options.get("as_utf8") else "ascii")


def PrintMessage(message, out, indent=0, **options):
    """Writes the message as text to a file."""
    out.write(MessageToString(message, indent=indent, **options))


def PrintField(field, value, out, indent=0, **options):
    """Writes one field as text to a file."""
    printer = _Printer(indent=indent, **options)
    printer.field(field, value)
    out.write(printer.text())


def PrintFieldValue(field, value, out, indent=0, **options):
    """Writes the value of a field as text to a file."""
    out.write(_Printer(indent=indent, **options).scalar(field, value))


# -- Parsing ------------------------------------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#.*)+)|(?P<name>[A-Za-z_][\w+-]*)|(?P<number>[0-9+-][\w.+-]*|\.[0-9][\w.+-]*)|(?P<string>"(?:[^"\n\\]|\\.)*"?|'(?:[^'\n\\]|\\.)*'?)|(?P<mark>.)"""
)
_SIMPLE = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")


def _unescape(text):
    def code(match):
        octal, hexadecimal, short, long, simple = match.groups()
        if octal:
            return chr(int(octal, 8) & 255)
        if hexadecimal:
            return chr(int(hexadecimal, 16))
        if short or long:
            return "".join(map(chr, chr(int(short or long, 16)).encode("utf-8")))
        if simple not in _SIMPLE:
            raise ValueError("invalid escape \\%s" % simple)
        return chr(_SIMPLE[simple])

    return _ESCAPE.sub(code, "".join(map(chr, text.encode("utf-8")))).encode("latin-1")


class _Parser:
    """Reads tokens one ahead. Nesting is bounded, since the text may come from anywhere."""

    LEVELS = 100

    def __init__(self, text, allow_unknown_field=False):
        self.text, self.position, self.allow_unknown = text, 0, allow_unknown_field
        self.kind = self.token = None
        self.start, self.previous = 0, 0
        self.next()

    def next(self):
        token, self.previous = self.token, self.start
        while True:
            match = _TOKEN.match(self.text, self.position)
            if match is None:
                self.kind, self.token, self.start = "end", "", len(self.text)
                return token
            self.start, self.position = self.position, match.end()
            if match.lastgroup != "space":
                self.kind, self.token = match.lastgroup, match.group()
                return token

    def error(self, message, at=None):
        at = self.start if at is None else at
        line = self.text.count("\n", 0, at) + 1
        return ParseError(message, line, at - self.text.rfind("\n", 0, at))

    def fault(self, message):
        """An error about the token that is next, with its line."""
        start = self.text.rfind("\n", 0, self.start) + 1
        return self.error("'%s': %s" % (self.text[start:].split("\n", 1)[0], message))

    def accept(self, mark):
        if self.token == mark and self.kind == "mark":
            self.next()
            return True
        return False

    def expect(self, mark):
        if not self.accept(mark):
            raise self.error('Expected "%s".' % mark) if self.kind == "end" else self.fault('Expected "%s".' % mark)

    def message(self, message, close=None, level=0):
        if level > self.LEVELS:
            raise self.error("Message too deep.")
        while not (self.kind == "end" if close is None else self.accept(close)):
            if self.kind == "end":
                raise self.error('Expected "%s".' % close)
            self.field(message, level)
            if not self.accept(","):
                self.accept(";")

    def opened(self):
        if self.accept("<"):
            return ">"
        self.expect("{")
        return "}"

    def field(self, message, level):
        described = message.DESCRIPTOR
        if self.kind == "mark" and self.token == "[":
            return self.expanded_any(message, level)
        if self.kind not in ("name", "number"):
            raise self.fault("Expected identifier or number.")
        at, name = self.start, self.next()
        field = described.fields_by_name.get(name)
        if field is None and name.isdigit():
            field = described.fields_by_number.get(int(name))
        if field is None:
            if self.allow_unknown:
                self.accept(":")
                return self.skip_value(level)
            raise self.error('Message type "%s" has no field named "%s".' % (described.full_name, name), at)
        if not field.repeated and field.containing_oneof is not None:
            other = message.WhichOneof(field.containing_oneof.name)
            if other is not None and other != field.name:
                raise self.error('Field "%s" is specified along with field "%s", another member of oneof "%s" for message type "%s".' % (
                    field.full_name, described.full_name + "." + other, field.containing_oneof.name, described.full_name), at)
        if field.is_message:
            self.accept(":")
        else:
            self.expect(":")
        if field.repeated and self.accept("["):
            if not self.accept("]"):
                self.value(message, field, level)
                while self.accept(","):
                    self.value(message, field, level)
                self.expect("]")
        else:
            self.value(message, field, level)

    def value(self, message, field, level):
        if field.map:
            entry = field.message_class()
            self.message(entry, self.opened(), level + 1)
            container = getattr(message, field.name)
            if field.value.is_message:
                container[entry.key].CopyFrom(entry.value)
            else:
                container[entry.key] = entry.value
        elif field.is_message:
            close = self.opened()
            child = getattr(message, field.name).add() if field.repeated else getattr(message, field.name)
            child.SetInParent()
            self.message(child, close, level + 1)
        else:
            value = self.scalar(field)
            try:
                if field.repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
            except ValueError as error:
                raise self.error(str(error), self.previous) from None

    def expanded_any(self, message, level):
        """`[type.googleapis.com/name] { … }` inside an `Any`."""
        self.expect("[")
        url = ""
        while not self.accept("]"):
            if self.kind in ("end", "string"):
                raise self.fault('Expected "]".')
            url += self.next()
        self.accept(":")
        try:
            inner = descriptor.message(url.rpartition("/")[2])._concrete_class()
        except KeyError:
            raise self.error("Type %s not found in descriptor pool" % url) from None
        self.message(inner, self.opened(), level + 1)
        message.type_url, message.value = url, inner.SerializeToString()

    def skip_value(self, level):
        if level > self.LEVELS:
            raise self.error("Message too deep.")
        if self.kind == "mark" and self.token in "{<[":
            close = {"{": "}", "<": ">", "[": "]"}[self.next()]
            while not self.accept(close):
                if self.kind == "end":
                    raise self.error('Expected "%s".' % close)
                self.skip_value(level + 1)
        else:
            kind = self.kind
            self.next()
            while kind == "string" and self.kind == "string":
                self.next()

    def scalar(self, field):
        if field.type in (9, 12):
            return self.string(field)
        if self.kind not in ("name", "number"):
            raise self.fault("Expected identifier or number.")
        token = self.token
        try:
            if field.type == 8:
                value = {"true": True, "t": True, "True": True, "1": True, "false": False, "f": False, "False": False, "0": False}[token]
            elif field.type == 14:
                value = self.enum(field, token)
            elif field.type in (1, 2):
                value = self.floating(token)
            else:
                value = self.integer(token)
        except (KeyError, ValueError):
            raise self.fault(self.expected(field, token)) from None
        self.next()
        return value

    @staticmethod
    def expected(field, token):
        if field.type == 8:
            return 'Expected "true" or "false".'
        if field.type == 14:
            return 'Enum type "%s" has no value named %s.' % (field.enum_type.full_name, token)
        return "Couldn't parse %s: %s." % ("float" if field.type in (1, 2) else "integer", token)

    @staticmethod
    def enum(field, token):
        known = field.enum_type.values_by_name.get(token)
        return known.number if known is not None else int(token, 0)

    @staticmethod
    def integer(token):
        if re.fullmatch(r"-?0[0-7]+", token):
            return int(token, 8)
        return int(token, 0)

    @staticmethod
    def floating(token):
        if token.lower() in ("inf", "infinity", "-inf", "-infinity", "inff", "infinityf", "-inff", "-infinityf"):
            return float("-inf" if token.startswith("-") else "inf")
        if token.lower() in ("nan", "nanf"):
            return float("nan")
        if "_" in token or re.fullmatch(r"-?0[0-7]+", token):
            raise ValueError(token)
        return float(token[:-1] if token[-1:] in "fF" else token)

    def string(self, field):
        data = b""
        if self.kind != "string":
            raise self.fault("Expected string.")
        while self.kind == "string":
            token = self.token
            if len(token) < 2 or token[-1] != token[0]:
                raise self.fault("String missing ending quote: %s" % token)
            try:
                data += _unescape(token[1:-1])
            except ValueError as error:
                raise self.fault("Invalid string: %s" % error) from None
            self.next()
        if field.type == 12:
            return data
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error("Couldn't parse string: it is not UTF-8.", self.previous) from None


def _text(text):
    return text.decode("utf-8") if isinstance(text, bytes) else text


def Merge(text, message, allow_unknown_extension=False, allow_field_number=False, descriptor_pool=None, allow_unknown_field=False):
    """Reads text into a message that may already have fields, and returns it."""
    _Parser(_text(text), allow_unknown_field).message(message)
    return message


Parse = Merge


def MergeLines(lines, message, *arguments, **options):
    """`Merge` of a text that comes in lines."""
    return Merge("\n".join(_text(line).rstrip("\n") for line in lines), message, *arguments, **options)


ParseLines = MergeLines
