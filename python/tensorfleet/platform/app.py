"""`tf.app.run`: reads the flags, then runs the program's `main`."""

import sys

from tensorfleet.framework.export import export

from . import flags
from .flag_classes import BooleanFlag


class _HelpFlag(BooleanFlag):
    """`--help`: prints the flags and ends the program, as absl does, with status 1."""

    def __init__(self, name, help, show, short_name=None):
        super().__init__(name, False, help, short_name, allow_override=True, allow_using_method_names=True)
        self._show = show

    def parse(self, argument):
        if self._parse(argument):
            self._show()
            sys.exit(1)


def _usage(text):
    main = sys.modules.get("__main__")
    doc = getattr(main, "__doc__", None)
    doc = doc.replace("%s", sys.argv[0]) if doc else "\nUSAGE: %s [flags]\n" % sys.argv[0]
    doc = flags.text_wrap(doc, indent="       ", firstline_indent="")
    sys.stdout.write("%s\nflags:\n%s\n" % (doc.rstrip(), text))


def _short():
    _usage(flags._VALUES.main_module_help() + "\n\nTry --helpfull to get a list of all flags.")


def _define_help():
    if "help" in flags._VALUES:
        return
    for flag in (
        _HelpFlag("help", "show this help", _short, short_name="?"),
        _HelpFlag("helpshort", "show this help", _short),
        _HelpFlag("helpfull", "show full help", lambda: _usage(flags._VALUES.get_help())),
        _HelpFlag("helpxml", "like --helpfull, but generates XML output", lambda: flags._VALUES.write_help_in_xml_format(sys.stdout)),
    ):
        flags.DEFINE_flag(flag, module_name="tensorfleet.platform.app")


@export("app.run")
def run(main=None, argv=None):
    """Reads flags from `argv` (or `sys.argv`), calls `main` with what is left, and ends the program with what it returns.

    Flags nobody defined stay in what `main` gets. `--help` lists the flags."""
    _define_help()
    main = main or sys.modules["__main__"].main
    rest = flags.FLAGS(sys.argv if argv is None else list(argv), known_only=True)
    sys.exit(main(rest))
