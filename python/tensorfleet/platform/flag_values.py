"""All flags of a program: defined by its modules, filled from the command line."""

import os
import sys

from .flag_classes import Flag
from .flag_parsers import (CantOpenFlagFileError, DuplicateFlagError, Error, FlagNameConflictsWithMethodError, IllegalFlagValueError,
                           UnparsedFlagAccessError, UnrecognizedFlagError, ValidationError)


def defining_module():
    """The module that calls into the flags: the first frame that is not ours."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("tensorfleet.platform."):
            if name == "__main__":
                return frame.f_globals, sys.argv[0] if sys.argv else "__main__"
            return frame.f_globals, name
        frame = frame.f_back
    return {}, "<unknown>"


class FlagValues:
    """Flags by name. `flags(argv)` reads a command line and returns what is left of it; `flags.name` is a value."""

    def __init__(self):
        state = self.__dict__
        state["__flags"] = {}
        state["__by_module"] = {}
        state["__key_by_module"] = {}
        state["__parsed"] = False
        state["__gnu_getopt"] = True
        state["__validators"] = []

    def _flags(self):
        return self.__dict__["__flags"]

    # -- Defining -----------------------------------------------------------------------------------------------------------------------------------

    def __setitem__(self, name, flag):
        if not isinstance(flag, Flag):
            raise IllegalFlagValueError("Expect Flag instances, found type %s. Maybe you didn't mean to use FlagValue.__setitem__?" % type(flag))
        if not isinstance(name, str):
            raise Error("Flag name must be a string")
        if not name:
            raise Error("Flag name cannot be empty")
        if " " in name:
            raise Error("Flag name cannot contain a space")
        if not flag.allow_using_method_names and name in dir(type(self)):
            raise FlagNameConflictsWithMethodError(
                "Cannot define a flag named \"%s\". It conflicts with a method on class \"FlagValues\". To allow defining it, use allow_using_method_names "
                "and access the flag value with FLAGS['%s'].value. FLAGS.%s returns the method, not the flag value." % (name, name, name))
        flags = self._flags()
        if name in flags and not flag.allow_override and not flags[name].allow_override:
            first = self.find_module_defining_flag(name, "<unknown>")
            second = defining_module()[1]
            # A module that is loaded a second time, as a notebook's cell is, may define its flags again.
            if first != second or not _interactive():
                raise DuplicateFlagError("The flag '%s' is defined twice. First from %s, Second from %s.  Description from first occurrence: %s" % (
                    name, first, second, flags[name].help))
        flags[name] = flag
        if flag.short_name:
            flags[flag.short_name] = flag

    def __getitem__(self, name):
        return self._flags()[name]

    def register_flag_by_module(self, module_name, flag):
        self.__dict__["__by_module"].setdefault(module_name, []).append(flag)

    def register_flag_by_module_id(self, module_id, flag):
        self.__dict__["__by_module"].setdefault(module_id, []).append(flag)

    def register_key_flag_for_module(self, module_name, flag):
        flags = self.__dict__["__key_by_module"].setdefault(module_name, [])
        if flag not in flags:
            flags.append(flag)

    def flags_by_module_dict(self):
        return self.__dict__["__by_module"]

    def flags_by_module_id_dict(self):
        return self.__dict__["__by_module"]

    def key_flags_by_module_dict(self):
        return self.__dict__["__key_by_module"]

    def get_flags_for_module(self, module):
        return list(self.__dict__["__by_module"].get(_module_name(module), []))

    def get_key_flags_for_module(self, module):
        name = _module_name(module)
        return self.get_flags_for_module(name) + [flag for flag in self.__dict__["__key_by_module"].get(name, []) if flag not in self.get_flags_for_module(name)]

    def find_module_defining_flag(self, flagname, default=None):
        flag = self._flags().get(flagname)
        for module, flags in self.__dict__["__by_module"].items():
            if flag is not None and any(known is flag for known in flags):
                return module
        return default

    find_module_id_defining_flag = find_module_defining_flag

    def append_flag_values(self, flag_values):
        """Takes in the flags of another set."""
        for name, flag in flag_values._flags().items():
            if name == flag.name:
                if name in self._flags():
                    raise DuplicateFlagError.from_flag(name, self, flag_values)
                self[name] = flag

    def remove_flag_values(self, flag_values):
        """Forgets flags."""
        for name in list(flag_values):
            self.__delattr__(name)

    # -- Reading and changing -----------------------------------------------------------------------------------------------------------------------

    def __getattr__(self, name):
        flag = self._flags().get(name)
        if flag is None:
            raise AttributeError(name)
        if self.__dict__["__parsed"] or flag.present:
            return flag.value
        raise UnparsedFlagAccessError("Trying to access flag --%s before flags were parsed." % name)

    def __setattr__(self, name, value):
        flag = self._flags().get(name)
        if flag is None:
            raise UnrecognizedFlagError(name)
        flag.value = value
        flag.using_default_value = False
        self._check(flag.validators)

    def __delattr__(self, name):
        flag = self._flags().pop(name, None)
        if flag is None:
            raise AttributeError(name)
        for flags in (*self.__dict__["__by_module"].values(), *self.__dict__["__key_by_module"].values()):
            while flag in flags:
                flags.remove(flag)

    def __contains__(self, name):
        return name in self._flags()

    def __iter__(self):
        return iter(self._flags())

    def __len__(self):
        return len(self._flags())

    def __dir__(self):
        return sorted(list(self._flags()) + [name for name in dir(type(self)) if not name.startswith("__")])

    def get_flag_value(self, name, default):
        value = getattr(self, name)
        return value if value is not None else default

    def set_default(self, name, value):
        flag = self._flags().get(name)
        if flag is None:
            raise UnrecognizedFlagError(name)
        flag._set_default(value)
        self._check(flag.validators)

    def flag_values_dict(self):
        return {name: flag.value for name, flag in self._flags().items()}

    def is_parsed(self):
        return self.__dict__["__parsed"]

    def mark_as_parsed(self):
        self.__dict__["__parsed"] = True

    def unparse_flags(self):
        """Back to the state before the command line was read."""
        for flag in self._flags().values():
            flag.unparse()
        self.__dict__["__parsed"] = False

    def is_gnu_getopt(self):
        return self.__dict__["__gnu_getopt"]

    def set_gnu_getopt(self, gnu_getopt=True):
        self.__dict__["__gnu_getopt"] = gnu_getopt

    # -- Validators ---------------------------------------------------------------------------------------------------------------------------------

    def add_validator(self, validator):
        """Remembers a validator and checks the values as they are, if there are any yet."""
        for name in validator.names:
            self[name].validators.append(validator)
        self.__dict__["__validators"].append(validator)

    def validate_all_flags(self):
        self._check(self.__dict__["__validators"])

    def _check(self, validators):
        for validator in validators:
            try:
                validator.verify(self)
            except ValidationError as error:
                raise IllegalFlagValueError("%s: %s" % (validator.described(self), error)) from None

    # -- The command line ---------------------------------------------------------------------------------------------------------------------------

    def __call__(self, argv, known_only=False):
        if isinstance(argv, (str, bytes)):
            raise TypeError("argv should be a tuple/list of strings, not bytes or string.")
        if not argv:
            raise ValueError("argv cannot be an empty list, and must contain the program name as the first element.")
        program, arguments = argv[0], self.read_flags_from_files(list(argv[1:]), force_gnu=False)
        rest = self._parse(arguments, known_only)
        self.mark_as_parsed()
        self.validate_all_flags()
        return [program] + rest

    def _parse(self, arguments, known_only):
        flags, rest, unknown, accepted = self._flags(), [], [], set()
        index = 0
        while index < len(arguments):
            argument = arguments[index]
            index += 1
            if argument == "--":
                rest += ["--"] * known_only + arguments[index:]
                break
            if not argument.startswith("-") or argument == "-":
                rest.append(argument)
                if not self.is_gnu_getopt():
                    rest += arguments[index:]
                    break
                continue
            name, equals, value = argument.lstrip("-").partition("=")
            if name == "undefok":
                if not equals:
                    value, index = self._next(arguments, index, argument)
                for one in value.split(","):
                    accepted |= {one.strip(), "no" + one.strip()}
                continue
            flag, negated = flags.get(name), False
            if flag is None and name.startswith("no") and name[2:] in flags and flags[name[2:]].boolean:
                flag, negated = flags[name[2:]], True
            if flag is None:
                if known_only:
                    rest.append(argument)
                else:
                    unknown.append((name, argument))
                continue
            if negated:
                if equals:
                    raise ValueError(argument + " does not take an argument")
                value = "false"
            elif flag.boolean:
                value = value if equals else "true"
            elif not equals:
                value, index = self._next(arguments, index, argument)
            flag.parse(value)
            flag.using_default_value = False
        for name, argument in unknown:
            if name not in accepted:
                import difflib

                raise UnrecognizedFlagError(name, argument, difflib.get_close_matches(name, list(flags), 3, 0.8))
        return [argument for argument in rest if argument.lstrip("-").partition("=")[0] not in accepted or not argument.startswith("-")]

    @staticmethod
    def _next(arguments, index, argument):
        if index >= len(arguments):
            raise Error("Missing value for flag " + argument)
        return arguments[index], index + 1

    def read_flags_from_files(self, argv, force_gnu=True):
        """The command line with every `--flagfile=name` replaced by the flags in that file."""
        return self._read(argv, set())

    def _read(self, argv, seen):
        out, index = [], 0
        while index < len(argv):
            argument = argv[index]
            index += 1
            if argument == "--":
                return out + argv[index - 1:]
            name, equals, value = argument.partition("=")
            if name not in ("--flagfile", "-flagfile") or "flagfile" in self._flags():
                out.append(argument)
                continue
            if not equals:
                if index >= len(argv):
                    raise IllegalFlagValueError("--flagfile with no argument")
                value, index = argv[index], index + 1
            path = os.path.expanduser(value.strip())
            if path in seen:
                print("Warning: Hit circular flagfile dependency. Ignoring flagfile: %s" % path, file=sys.stderr)
                continue
            try:
                with open(path) as file:
                    lines = [line.strip() for line in file]
            except OSError as error:
                raise CantOpenFlagFileError("ERROR:: Unable to open flagfile: %s" % error) from None
            kept = [line for line in lines if line and not line.startswith(("#", "//"))]
            out += self._read(kept, seen | {path})
        return out

    def flags_into_string(self):
        """All flags as lines of a flag file."""
        out = ""
        for _, flags in sorted(self.__dict__["__by_module"].items()):
            for flag in sorted(flags, key=lambda flag: flag.name):
                if flag.value is not None:
                    out += flag.serialize() + "\n"
        return out

    def append_flags_into_file(self, filename):
        with open(filename, "a") as file:
            file.write(self.flags_into_string())

    # -- Help ---------------------------------------------------------------------------------------------------------------------------------------

    def get_help(self, prefix="", include_special_flags=True):
        """The flags of all modules, the program's own first."""
        modules = self.__dict__["__by_module"]
        main = sys.argv[0] if sys.argv else ""
        order = sorted(modules, key=lambda module: (module != main, module))
        return "\n".join(self._module_help(module, modules[module], prefix) for module in order if modules[module])

    def _module_help(self, module, flags, prefix=""):
        lines = ["\n%s%s:" % (prefix, module)]
        for flag in sorted({flag.name: flag for flag in flags}.values(), key=lambda flag: flag.name):
            first = True
            for line in flag.help_lines():
                for part in line.split("\n"):
                    lines.append(text_wrap(part.strip(), indent=prefix + "    ", firstline_indent=prefix + ("  " if first else "    ")))
                    first = False
        return "\n".join(lines)

    def module_help(self, module):
        name = _module_name(module)
        return self._module_help(name, self.get_key_flags_for_module(name))

    def main_module_help(self):
        main = sys.argv[0] if sys.argv else ""
        return self._module_help(main, self.get_key_flags_for_module(main))

    def write_help_in_xml_format(self, outfile=None):
        from xml.sax.saxutils import escape

        out = outfile or sys.stdout
        out.write('<?xml version="1.0"?>\n<AllFlags>\n')
        for module, flags in sorted(self.__dict__["__by_module"].items()):
            for flag in flags:
                out.write("  <flag><file>%s</file><name>%s</name><meaning>%s</meaning><default>%s</default><current>%s</current><type>%s</type></flag>\n" % (
                    escape(str(module)), escape(flag.name), escape(flag.help), escape(str(flag.default)), escape(str(flag.value)), escape(flag.flag_type())))
        out.write("</AllFlags>\n")

    def __str__(self):
        return self.get_help()

    def __deepcopy__(self, memo):
        import copy

        result = type(self)()
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    __hash__ = object.__hash__


def _module_name(module):
    if isinstance(module, str):
        return module
    return sys.argv[0] if module.__name__ == "__main__" else module.__name__


def _interactive():
    return hasattr(sys, "ps1") or "IPython" in sys.modules


def get_help_width():
    """How wide help texts are."""
    return 80


def text_wrap(text, length=None, indent="", firstline_indent=None):
    """Wraps a text to lines of that length."""
    import textwrap

    first = indent if firstline_indent is None else firstline_indent
    wrapper = textwrap.TextWrapper(width=length or get_help_width(), initial_indent=first, subsequent_indent=indent)
    lines = []
    for paragraph in (part.strip() for part in text.splitlines()):
        lines.append(wrapper.fill(paragraph) if paragraph else "")
        wrapper.initial_indent = indent
    return "\n".join(lines)
