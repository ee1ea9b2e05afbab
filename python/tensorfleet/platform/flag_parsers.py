"""Flags of a command line: how text becomes a value, and the value text again. The names are absl's, which TensorFlow 1.15 offers as `tf.flags`."""

import enum


class Error(Exception):
    """Anything that is wrong with flags."""


class CantOpenFlagFileError(Error):
    """A file of flags cannot be read."""


class DuplicateFlagError(Error):
    """Two flags have one name."""

    @classmethod
    def from_flag(cls, flagname, flag_values, other_flag_values=None):
        first = flag_values.find_module_defining_flag(flagname, default="<unknown>")
        second = other_flag_values.find_module_defining_flag(flagname, default="<unknown>") if other_flag_values is not None else first
        return cls("The flag '%s' is defined twice. First from %s, Second from %s.  Description from first occurrence: %s" % (
            flagname, first, second, flag_values[flagname].help))


class FlagNameConflictsWithMethodError(Error):
    """A flag has the name of a method of `FlagValues`."""


class IllegalFlagValueError(Error):
    """A flag cannot have this value."""


class UnparsedFlagAccessError(Error):
    """A flag was read before the command line was."""


class ValidationError(Error):
    """A validator refuses a value."""


class UnrecognizedFlagError(Error):
    """There is no such flag."""

    def __init__(self, flagname, flagvalue="", suggestions=None):
        self.flagname, self.flagvalue = flagname, flagvalue
        tip = ". Did you mean: %s ?" % ", ".join(suggestions) if suggestions else ""
        super().__init__("Unknown command line flag '%s'%s" % (flagname, tip))


class ArgumentParser:
    """Makes a value of an argument. This one takes text as it is."""

    syntactic_help = ""

    def parse(self, argument):
        if not isinstance(argument, str):
            raise TypeError("flag value must be a string, found \"%s\"" % type(argument))
        return argument

    def flag_type(self):
        return "string"


class ArgumentSerializer:
    """Makes text of a value."""

    def serialize(self, value):
        return str(value)


class NumericParser(ArgumentParser):
    """Numbers within bounds."""

    lower_bound = upper_bound = None
    number_name = number_article = ""

    def _bounded(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        number, article = self.number_name, self.number_article
        if lower_bound is not None and upper_bound is not None:
            self.syntactic_help = "%s %s in the range [%s, %s]" % (article, number, lower_bound, upper_bound)
        elif lower_bound == 0:
            self.syntactic_help = "a non-negative %s" % number
        elif lower_bound == 1 and number == "integer":
            self.syntactic_help = "a positive %s" % number
        elif upper_bound == 0:
            self.syntactic_help = "a non-positive %s" % number
        elif upper_bound == -1 and number == "integer":
            self.syntactic_help = "a negative %s" % number
        elif upper_bound is not None:
            self.syntactic_help = "%s <= %s" % (number, upper_bound)
        elif lower_bound is not None:
            self.syntactic_help = "%s >= %s" % (number, lower_bound)
        else:
            self.syntactic_help = "%s %s" % (article, number)

    def is_outside_bounds(self, val):
        return self.lower_bound is not None and val < self.lower_bound or self.upper_bound is not None and val > self.upper_bound

    def convert(self, argument):
        raise NotImplementedError

    def parse(self, argument):
        value = self.convert(argument)
        if self.is_outside_bounds(value):
            raise ValueError("%s is not %s" % (value, self.syntactic_help))
        return value


class FloatParser(NumericParser):
    """A float."""

    number_article, number_name = "a", "number"

    def __init__(self, lower_bound=None, upper_bound=None):
        self._bounded(lower_bound, upper_bound)

    def convert(self, argument):
        if isinstance(argument, (int, float, str)) and not isinstance(argument, bool):
            return float(argument)
        raise TypeError("Expect argument to be a string, int, or float, found %s" % type(argument))

    def flag_type(self):
        return "float"


class IntegerParser(NumericParser):
    """An integer; `0x` and `0o` say the base."""

    number_article, number_name = "an", "integer"

    def __init__(self, lower_bound=None, upper_bound=None):
        self._bounded(lower_bound, upper_bound)

    def convert(self, argument):
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument
        if isinstance(argument, str):
            prefix = argument[:2].lower()
            return int(argument, 16 if prefix == "0x" else 8 if prefix == "0o" else 10)
        raise TypeError("Expect argument to be a string or int, found %s" % type(argument))

    def flag_type(self):
        return "int"


class BooleanParser(ArgumentParser):
    """A truth value: `true`, `t`, `1`, `false`, `f`, `0`."""

    def parse(self, argument):
        if isinstance(argument, str):
            if argument.lower() in ("true", "t", "1"):
                return True
            if argument.lower() in ("false", "f", "0"):
                return False
            raise ValueError("Non-boolean argument to boolean flag", argument)
        if isinstance(argument, int) and argument in (0, 1):
            return bool(argument)
        raise TypeError("Non-boolean argument to boolean flag", argument)

    def flag_type(self):
        return "bool"


class EnumParser(ArgumentParser):
    """One of several words."""

    def __init__(self, enum_values, case_sensitive=True):
        if not enum_values:
            raise ValueError("enum_values cannot be empty, found \"%s\"" % (enum_values,))
        if isinstance(enum_values, str):
            raise ValueError("enum_values cannot be a str, found \"%s\"" % (enum_values,))
        self.enum_values, self.case_sensitive = list(enum_values), case_sensitive

    def parse(self, argument):
        for value in self.enum_values:
            if value == argument or not self.case_sensitive and str(value).upper() == str(argument).upper():
                return value
        raise ValueError("value should be one of <%s>" % "|".join(self.enum_values))

    def flag_type(self):
        return "string enum"


class EnumClassParser(ArgumentParser):
    """A member of an `enum.Enum`, by its name."""

    def __init__(self, enum_class, case_sensitive=True):
        if not isinstance(enum_class, type) or not issubclass(enum_class, enum.Enum):
            raise TypeError("%s is not a subclass of Enum." % (enum_class,))
        if not enum_class.__members__:
            raise ValueError("enum_class cannot be empty, but \"%s\" is empty." % (enum_class,))
        self.enum_class, self._case_sensitive = enum_class, case_sensitive
        self._member_names = tuple(name if case_sensitive else name.lower() for name in enum_class.__members__)

    @property
    def member_names(self):
        return self._member_names

    def parse(self, argument):
        if isinstance(argument, self.enum_class):
            return argument
        if not isinstance(argument, str):
            raise ValueError("%s is not an enum member or a name of a member in %s" % (argument, self.enum_class))
        wanted = argument if self._case_sensitive else argument.lower()
        for name, member in self.enum_class.__members__.items():
            if (name if self._case_sensitive else name.lower()) == wanted:
                return member
        raise ValueError("value should be one of <%s>" % "|".join(self._member_names))

    def flag_type(self):
        return "enum class"


class ListSerializer(ArgumentSerializer):
    """Values with a separator between them."""

    def __init__(self, list_sep):
        self.list_sep = list_sep

    def serialize(self, value):
        return self.list_sep.join(str(item) for item in value)


class CsvListSerializer(ListSerializer):
    """Values as a line of comma-separated values, quoted where they must be."""

    def serialize(self, value):
        import csv
        import io

        out = io.StringIO()
        csv.writer(out, delimiter=self.list_sep).writerow([str(item) for item in value])
        return out.getvalue().strip()


class EnumClassListSerializer(ListSerializer):
    """Members of an `enum.Enum`, by name."""

    def __init__(self, list_sep, **kwargs):
        super().__init__(list_sep)
        self._element = EnumClassSerializer(**kwargs)

    def serialize(self, value):
        if isinstance(value, (list, tuple)):
            return self.list_sep.join(self._element.serialize(item) for item in value)
        return self._element.serialize(value)


class EnumClassSerializer(ArgumentSerializer):
    """A member of an `enum.Enum`, by name."""

    def __init__(self, lowercase):
        self._lowercase = lowercase

    def serialize(self, value):
        return value.name.lower() if self._lowercase else value.name


class BaseListParser(ArgumentParser):
    """Several texts with a separator between them."""

    def __init__(self, token=None, name=None):
        self._token, self._name = token, name
        self.syntactic_help = "a %s separated list" % name

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        return [item.strip() for item in argument.split(self._token)] if argument else []

    def flag_type(self):
        return "%s separated list of strings" % self._name


class ListParser(BaseListParser):
    """Comma-separated texts."""

    def __init__(self):
        super().__init__(",", "comma")

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        if not argument:
            return []
        import csv

        try:
            return [item.strip() for item in next(csv.reader([argument], strict=True))]
        except csv.Error as error:
            raise ValueError("Unable to parse the value %r as a %s: %s" % (argument, self.flag_type(), error)) from None


class WhitespaceSeparatedListParser(BaseListParser):
    """Texts with blanks between them, or commas too if so told."""

    def __init__(self, comma_compat=False):
        super().__init__(None, "whitespace or comma" if comma_compat else "whitespace")
        self._comma_compat = comma_compat

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        if self._comma_compat:
            argument = argument.translate(str.maketrans(",", " "))
        return argument.split()

