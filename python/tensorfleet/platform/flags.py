"""`tf.app.flags` and `tf.flags`: flags of the command line, with absl's names and TensorFlow 1.15's habits.

`FLAGS` reads `sys.argv` when a flag is first looked at, if nobody has read it before. Flags it does not know are an error then, and are left alone by
`tf.app.run`, as TensorFlow does."""

import functools
import sys

from tensorfleet.framework.export import export_values

from . import flag_values as _values
from .flag_classes import BooleanFlag, EnumClassFlag, EnumFlag, Flag, MultiEnumClassFlag, MultiFlag
from .flag_parsers import (ArgumentParser, ArgumentSerializer, BaseListParser, BooleanParser, CantOpenFlagFileError, CsvListSerializer,
                           DuplicateFlagError, EnumClassListSerializer, EnumClassParser, EnumClassSerializer, EnumParser, Error,
                           FlagNameConflictsWithMethodError, FloatParser, IllegalFlagValueError, IntegerParser, ListParser, ListSerializer,
                           UnparsedFlagAccessError, UnrecognizedFlagError, ValidationError, WhitespaceSeparatedListParser)
from .flag_values import FlagValues, get_help_width, text_wrap

_VALUES = FlagValues()


class FlagValuesWrapper:
    """The flags of the program, which read the command line by themselves when they are first looked at."""

    def __init__(self, flags_object):
        self.__dict__["__wrapped"] = flags_object

    def __getattribute__(self, name):
        if name in ("__dict__", "__class__"):
            return object.__getattribute__(self, name)
        return object.__getattribute__(self, "__getattr__")(name)

    def __getattr__(self, name):
        wrapped = self.__dict__["__wrapped"]
        # Programs of the time before absl ask for these two.
        if name == "__flags":
            return wrapped.__dict__["__flags"]
        if name == "__parsed":
            return wrapped.is_parsed()
        if not name.startswith("__") and name in wrapped and not wrapped.is_parsed():
            wrapped(sys.argv)
        return wrapped.__getattribute__(name) if hasattr(type(wrapped), name) else wrapped.__getattr__(name)

    def __setattr__(self, name, value):
        setattr(self.__dict__["__wrapped"], name, value)

    def __delattr__(self, name):
        delattr(self.__dict__["__wrapped"], name)

    def __dir__(self):
        return dir(self.__dict__["__wrapped"])

    def __getitem__(self, name):
        return self.__dict__["__wrapped"][name]

    def __setitem__(self, name, flag):
        self.__dict__["__wrapped"][name] = flag

    def __len__(self):
        return len(self.__dict__["__wrapped"])

    def __iter__(self):
        return iter(self.__dict__["__wrapped"])

    def __contains__(self, name):
        return name in self.__dict__["__wrapped"]

    def __str__(self):
        return str(self.__dict__["__wrapped"])

    def __call__(self, *args, **kwargs):
        return self.__dict__["__wrapped"](*args, **kwargs)


FLAGS = FlagValuesWrapper(_VALUES)


class FlagHolder:
    """What `DEFINE_…` returns: the flag's value as an attribute."""

    def __init__(self, flag_values, flag, ensure_non_none_value=False):
        self._flagvalues, self._name, self._ensure_non_none_value = flag_values, flag.name, ensure_non_none_value

    @property
    def name(self):
        return self._name

    @property
    def value(self):
        value = getattr(FLAGS if self._flagvalues is _VALUES else self._flagvalues, self._name)
        if self._ensure_non_none_value and value is None:
            raise IllegalFlagValueError("Unexpected None value for flag %s" % self._name)
        return value

    @property
    def default(self):
        return self._flagvalues[self._name].default

    @property
    def present(self):
        return bool(self._flagvalues[self._name].present)

    def serialize(self):
        return self._flagvalues[self._name].serialize()

    def __eq__(self, other):
        raise TypeError("unsupported operand type(s) for ==: 'FlagHolder' and '%s' (did you mean to use '.value' instead?)" % type(other).__name__)

    def __bool__(self):
        raise TypeError("bool() not supported for instances of type 'FlagHolder' (did you mean to use '.value' instead?)")

    __hash__ = object.__hash__


_RENAMED = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def _old_keywords(define):
    """Takes the keywords of TensorFlow's flags before 1.5, too."""

    @functools.wraps(define)
    def wrapper(*args, **kwargs):
        if any(name in _RENAMED for name in kwargs):
            import logging

            logging.warning("Use of the keyword argument names (flag_name, default_value, docstring) is deprecated, please use (name, default, help) instead.")
            kwargs = {_RENAMED.get(name, name): value for name, value in kwargs.items()}
        return define(*args, **kwargs)

    return wrapper


def _own(flag_values):
    return _VALUES if flag_values is FLAGS else flag_values


def DEFINE_flag(flag, flag_values=_VALUES, module_name=None, required=False):
    """Adds a flag that was made by hand."""
    if required and flag.default is not None:
        raise ValueError("Required flag --%s cannot have a non-None default" % flag.name)
    flag_values = _own(flag_values)
    flag_values[flag.name] = flag
    flag_values.register_flag_by_module(module_name or _values.defining_module()[1], flag)
    if required:
        mark_flag_as_required(flag.name, flag_values)
    return FlagHolder(flag_values, flag, ensure_non_none_value=flag.default is not None or required)


def DEFINE(parser, name, default, help, flag_values=_VALUES, serializer=None, module_name=None, required=False, **args):
    """Adds a flag that a parser reads."""
    return DEFINE_flag(Flag(parser, serializer, name, default, help, **args), flag_values, module_name, required)


@_old_keywords
def DEFINE_string(name, default, help, flag_values=_VALUES, required=False, **args):
    """Adds a flag of any text."""
    return DEFINE(ArgumentParser(), name, default, help, flag_values, ArgumentSerializer(), required=required, **args)


@_old_keywords
def DEFINE_boolean(name, default, help, flag_values=_VALUES, module_name=None, required=False, **args):
    """Adds a flag that is true or false."""
    return DEFINE_flag(BooleanFlag(name, default, help, **args), flag_values, module_name, required)


DEFINE_bool = DEFINE_boolean


@_old_keywords
def DEFINE_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=_VALUES, required=False, **args):
    """Adds a flag that is a float."""
    return DEFINE(FloatParser(lower_bound, upper_bound), name, default, help, flag_values, ArgumentSerializer(), required=required, **args)


@_old_keywords
def DEFINE_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=_VALUES, required=False, **args):
    """Adds a flag that is an integer."""
    return DEFINE(IntegerParser(lower_bound, upper_bound), name, default, help, flag_values, ArgumentSerializer(), required=required, **args)


def DEFINE_enum(name, default, enum_values, help, flag_values=_VALUES, module_name=None, required=False, **args):
    """Adds a flag that is one of several words."""
    return DEFINE_flag(EnumFlag(name, default, help, enum_values, **args), flag_values, module_name, required)


def DEFINE_enum_class(name, default, enum_class, help, flag_values=_VALUES, module_name=None, case_sensitive=False, required=False, **args):
    """Adds a flag that is a member of an `enum.Enum`."""
    return DEFINE_flag(EnumClassFlag(name, default, help, enum_class, case_sensitive=case_sensitive, **args), flag_values, module_name, required)


def DEFINE_list(name, default, help, flag_values=_VALUES, required=False, **args):
    """Adds a flag that is a list of texts with commas between them."""
    return DEFINE(ListParser(), name, default, help, flag_values, CsvListSerializer(","), required=required, **args)


def DEFINE_spaceseplist(name, default, help, comma_compat=False, flag_values=_VALUES, required=False, **args):
    """Adds a flag that is a list of texts with blanks between them."""
    return DEFINE(WhitespaceSeparatedListParser(comma_compat), name, default, help, flag_values, ListSerializer(" "), required=required, **args)


def DEFINE_multi(parser, serializer, name, default, help, flag_values=_VALUES, module_name=None, required=False, **args):
    """Adds a flag that may be said several times, read by a parser."""
    return DEFINE_flag(MultiFlag(parser, serializer, name, default, help, **args), flag_values, module_name, required)


def DEFINE_multi_string(name, default, help, flag_values=_VALUES, required=False, **args):
    """Adds a flag of texts that may be said several times."""
    return DEFINE_multi(ArgumentParser(), ArgumentSerializer(), name, default, help, flag_values, required=required, **args)


def DEFINE_multi_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=_VALUES, required=False, **args):
    """Adds a flag of integers that may be said several times."""
    return DEFINE_multi(IntegerParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, required=required, **args)


def DEFINE_multi_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=_VALUES, required=False, **args):
    """Adds a flag of floats that may be said several times."""
    return DEFINE_multi(FloatParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, required=required, **args)


def DEFINE_multi_enum(name, default, enum_values, help, flag_values=_VALUES, case_sensitive=True, required=False, **args):
    """Adds a flag of words of a set that may be said several times."""
    parser = EnumParser(enum_values, case_sensitive)
    help = "<%s>: %s" % ("|".join(enum_values), help)
    return DEFINE_multi(parser, ArgumentSerializer(), name, default, help, flag_values, required=required, **args)


def DEFINE_multi_enum_class(name, default, enum_class, help, flag_values=_VALUES, module_name=None, case_sensitive=False, required=False, **args):
    """Adds a flag of members of an `enum.Enum` that may be said several times."""
    return DEFINE_flag(MultiEnumClassFlag(name, default, help, enum_class, case_sensitive=case_sensitive, **args), flag_values, module_name, required)


def DEFINE_alias(name, original_name, flag_values=_VALUES, module_name=None):
    """Adds a second name for a flag."""
    flag_values = _own(flag_values)
    if original_name not in flag_values:
        raise UnrecognizedFlagError(original_name)
    original = flag_values[original_name]

    class Alias(Flag):
        @property
        def value(self):
            return original.value

        @value.setter
        def value(self, value):
            original.value = value

        def parse(self, argument):
            original.parse(argument)
            self.present += 1

    alias = Alias(original.parser, original.serializer, name, original.default, "Alias for --%s." % original_name, boolean=original.boolean)
    return DEFINE_flag(alias, flag_values, module_name)


# -- Validators ---------------------------------------------------------------------------------------------------------------------------------------


class _Validator:
    """A rule over one flag or several."""

    def __init__(self, names, checker, message, single):
        self.names, self.checker, self.message, self.single = names, checker, message, single

    def verify(self, flag_values):
        values = {name: flag_values[name].value for name in self.names}
        if not self.checker(values[self.names[0]] if self.single else values):
            raise ValidationError(self.message)

    def described(self, flag_values):
        if self.single:
            return "flag --%s=%s" % (self.names[0], flag_values[self.names[0]].value)
        return "flags " + ", ".join("%s=%s" % (name, flag_values[name].value) for name in self.names)


def _names(flags):
    return [flag.name if isinstance(flag, FlagHolder) else flag for flag in flags]


def _known(flag_name, flag_values):
    if flag_name not in flag_values:
        raise UnrecognizedFlagError(flag_name)


def register_validator(flag_name, checker, message="Flag validation failed", flag_values=_VALUES):
    """Refuses values of a flag for which `checker` is false."""
    flag_values, (flag_name,) = _own(flag_values), _names([flag_name])
    _known(flag_name, flag_values)
    flag_values.add_validator(_Validator([flag_name], checker, message, True))


def validator(flag_name, message="Flag validation failed", flag_values=_VALUES):
    """Makes the decorated function a validator of a flag."""

    def decorate(function):
        register_validator(flag_name, function, message, flag_values)
        return function

    return decorate


def register_multi_flags_validator(flag_names, multi_flags_checker, message="Flags validation failed", flag_values=_VALUES):
    """Refuses values of several flags for which `multi_flags_checker` of their dictionary is false."""
    flag_values, flag_names = _own(flag_values), _names(flag_names)
    for name in flag_names:
        _known(name, flag_values)
    flag_values.add_validator(_Validator(flag_names, multi_flags_checker, message, False))


def multi_flags_validator(flag_names, message="Flag validation failed", flag_values=_VALUES):
    """Makes the decorated function a validator of several flags."""

    def decorate(function):
        register_multi_flags_validator(flag_names, function, message, flag_values)
        return function

    return decorate


def mark_flag_as_required(flag_name, flag_values=_VALUES):
    """Refuses a command line without the flag."""
    (name,) = _names([flag_name])
    register_validator(name, lambda value: value is not None, "Flag --%s must have a value other than None." % name, flag_values)


def mark_flags_as_required(flag_names, flag_values=_VALUES):
    """Refuses a command line without these flags."""
    for name in flag_names:
        mark_flag_as_required(name, flag_values)


def mark_flags_as_mutual_exclusive(flag_names, required=False, flag_values=_VALUES):
    """Lets at most (or exactly) one of these flags have a value."""
    names = _names(flag_names)

    def check(values):
        given = sum(value is not None for value in values.values())
        return given == 1 or not required and given == 0

    register_multi_flags_validator(names, check, "%s one of (%s) must have a value other than None." % (
        "Exactly" if required else "At most", ", ".join(names)), flag_values)


def mark_bool_flags_as_mutual_exclusive(flag_names, required=False, flag_values=_VALUES):
    """Lets at most (or exactly) one of these flags be true."""
    names = _names(flag_names)

    def check(values):
        given = sum(bool(value) for value in values.values())
        return given == 1 or not required and given == 0

    register_multi_flags_validator(names, check, "%s one of (%s) must be True." % ("Exactly" if required else "At most", ", ".join(names)), flag_values)


# -- The rest -----------------------------------------------------------------------------------------------------------------------------------------


def declare_key_flag(flag_name, flag_values=_VALUES):
    """Shows another module's flag in this module's help."""
    flag_values = _own(flag_values)
    _known(flag_name, flag_values)
    flag_values.register_key_flag_for_module(_values.defining_module()[1], flag_values[flag_name])


def adopt_module_key_flags(module, flag_values=_VALUES):
    """Shows all flags of another module in this module's help."""
    flag_values = _own(flag_values)
    for flag in flag_values.get_key_flags_for_module(module):
        flag_values.register_key_flag_for_module(_values.defining_module()[1], flag)


def disclaim_key_flags():
    """Says that this module only defines flags for others. Help is not affected here."""


def doc_to_help(doc):
    """A docstring as a help text: without indentation, paragraphs on one line each."""
    paragraphs = "\n".join(line.strip() for line in doc.strip().splitlines()).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def flag_dict_to_args(flag_map, multi_flags=None):
    """The arguments that say a dictionary of flags."""
    for name, value in flag_map.items():
        if value is None:
            yield "--%s" % name
        elif isinstance(value, bool):
            yield "--%s" % name if value else "--no%s" % name
        elif isinstance(value, (bytes, str)) or not hasattr(value, "__iter__"):
            yield "--%s=%s" % (name, value)
        elif multi_flags and name in multi_flags:
            for item in value:
                yield "--%s=%s" % (name, item)
        else:
            yield "--%s=%s" % (name, ",".join(str(item) for item in value))


def set_default(flag_holder, value):
    """Changes the default of a flag."""
    flag_holder._flagvalues.set_default(flag_holder.name, value)


def override_value(flag_holder, value):
    """Changes the value of a flag, as the command line would."""
    flag = flag_holder._flagvalues[flag_holder.name]
    flag.value, flag.using_default_value = flag._parse(value) if isinstance(value, str) else value, False


_PUBLIC = [name for name in dir() if not name.startswith("_") and name not in ("functools", "sys", "export_values", "FlagValuesWrapper")]
export_values(__name__, {prefix + name: name for prefix in ("app.flags.", "flags.") for name in _PUBLIC})
