"""Single flags: a name, a value, and how both look."""

import functools

from .flag_parsers import (ArgumentSerializer, BooleanParser, EnumClassListSerializer, EnumClassParser,
                           EnumClassSerializer, EnumParser, Error, IllegalFlagValueError)


@functools.total_ordering
class Flag:
    """A flag. `present` counts how often the command line says it; `value` is its value now."""

    def __init__(self, parser, serializer, name, default, help_string, short_name=None, boolean=False, allow_override=False, allow_override_cpp=False,
                 allow_hide_cpp=False, allow_overwrite=True, allow_using_method_names=False):
        self.name, self.help, self.short_name, self.boolean = name, help_string or "(no help available)", short_name, boolean
        self.present = 0
        self.parser, self.serializer = parser, serializer
        self.allow_override, self.allow_override_cpp, self.allow_hide_cpp = allow_override, allow_override_cpp, allow_hide_cpp
        self.allow_overwrite, self.allow_using_method_names = allow_overwrite, allow_using_method_names
        self.using_default_value = True
        self._value, self.validators = None, []
        self._set_default(default)

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        self._value = value

    def __hash__(self):
        return hash(id(self))

    def __eq__(self, other):
        return self is other

    def __lt__(self, other):
        return id(self) < id(other) if isinstance(other, Flag) else NotImplemented

    def __deepcopy__(self, memo):
        result = object.__new__(type(self))
        result.__dict__ = dict(self.__dict__, validators=list(self.validators))
        return result

    def _parse(self, argument):
        try:
            return self.parser.parse(argument)
        except (TypeError, ValueError) as error:
            raise IllegalFlagValueError("flag --%s=%s: %s" % (self.name, argument, error)) from error

    def parse(self, argument):
        """Takes a value from the command line."""
        if self.present and not self.allow_overwrite:
            raise IllegalFlagValueError("flag --%s=%s: already defined as %s" % (self.name, argument, self.value))
        self.value = self._parse(argument)
        self.present += 1

    def unparse(self):
        """Back to the default."""
        self.value = self.default
        self.using_default_value, self.present = True, 0

    def _set_default(self, value):
        self.default_unparsed = value
        self.default = None if value is None else self._parse_from_default(value)
        self.default_as_str = self._text_of(self.default)
        if self.using_default_value:
            self.value = self.default

    def _parse_from_default(self, value):
        return self._parse(value)

    def _text_of(self, value):
        if value is None:
            return None
        if self.boolean:
            return repr("true" if value else "false")
        return repr(self.serializer.serialize(value)) if self.serializer else repr(str(value))

    def serialize(self):
        """The flag as the command line would say it."""
        return self._serialize(self.value)

    def _serialize(self, value):
        if value is None:
            return ""
        if self.boolean:
            return "--%s" % self.name if value else "--no%s" % self.name
        if not self.serializer:
            raise Error("Serializer not present for flag %s" % self.name)
        return "--%s=%s" % (self.name, self.serializer.serialize(value))

    def flag_type(self):
        return self.parser.flag_type()

    def help_lines(self):
        """Name, help, default and what a value looks like, for `--help`."""
        name = "--[no]%s" % self.name if self.boolean else "--%s" % self.name
        text = ("-%s," % self.short_name if self.short_name else "") + name + ":"
        lines = [text + " " + self.help if self.help else text]
        if self.default_as_str:
            lines.append("(default: %s)" % self.default_as_str)
        if self.parser.syntactic_help:
            lines.append("(%s)" % self.parser.syntactic_help)
        return lines


class BooleanFlag(Flag):
    """A flag that is there or not: `--name`, `--noname`, `--name=false`."""

    def __init__(self, name, default, help, short_name=None, **args):
        super().__init__(BooleanParser(), ArgumentSerializer(), name, default, help, short_name, True, **args)


class EnumFlag(Flag):
    """A flag whose value is one of several words."""

    def __init__(self, name, default, help, enum_values, short_name=None, case_sensitive=True, **args):
        super().__init__(EnumParser(enum_values, case_sensitive), ArgumentSerializer(), name, default, help, short_name, **args)
        self.help = "<%s>: %s" % ("|".join(self.parser.enum_values), help)


class EnumClassFlag(Flag):
    """A flag whose value is a member of an `enum.Enum`."""

    def __init__(self, name, default, help, enum_class, short_name=None, case_sensitive=False, **args):
        parser = EnumClassParser(enum_class, case_sensitive)
        super().__init__(parser, EnumClassSerializer(not case_sensitive), name, default, help, short_name, **args)
        self.help = "<%s>: %s" % ("|".join(parser.member_names), help)


class MultiFlag(Flag):
    """A flag that may be said several times; its value is a list."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.help += ";\n    repeat this option to specify a list of values"

    def parse(self, arguments):
        new = self._parse(arguments)
        self.value = (self.value or []) + new if self.present else new
        self.present += len(new)

    def _parse(self, arguments):
        if isinstance(arguments, (list, tuple)) or hasattr(arguments, "__iter__") and not isinstance(arguments, str):
            return [super(MultiFlag, self)._parse(item) for item in arguments]
        return [super()._parse(arguments)]

    def _serialize(self, value):
        if not self.serializer:
            raise Error("Serializer not present for flag %s" % self.name)
        return "\n".join("--%s=%s" % (self.name, self.serializer.serialize(item)) for item in value or ())

    def _text_of(self, value):
        if value is None:
            return None
        return repr(",".join(self.serializer.serialize(item) if self.serializer else str(item) for item in value))

    def flag_type(self):
        return "multi " + self.parser.flag_type()


class MultiEnumClassFlag(MultiFlag):
    """A flag whose value is a list of members of an `enum.Enum`."""

    def __init__(self, name, default, help_string, enum_class, case_sensitive=False, **args):
        parser = EnumClassParser(enum_class, case_sensitive)
        super().__init__(parser, EnumClassListSerializer(",", lowercase=not case_sensitive), name, default, help_string, **args)
        self.help = "<%s>: %s;\n    repeat this option to specify a list of values" % ("|".join(parser.member_names), help_string or "(no help available)")
