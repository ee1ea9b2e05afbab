"""`python -m tensorfleet script.py ARGS`: runs a program as Python itself would, with `import tensorflow` giving this package."""

import builtins
import io
import os
import runpy
import sys
import types

from . import hook, python2

USAGE = """\
usage: python -m tensorfleet [--check] script.py [ARGS…]
       python -m tensorfleet [--check] -m module [ARGS…]
       python -m tensorfleet -c code [ARGS…]

Runs a TensorFlow 1.x program: its `import tensorflow` gives tensorfleet.
  --check      list what the program uses and tensorfleet lacks, and do not run it
  --quiet      do not say that tensorfleet stands in
  --version    the versions of tensorfleet and of the TensorFlow it stands in for
"""


def main(arguments=None):
    """The command line. Returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    check = quiet = False
    while arguments and arguments[0] in ("--check", "--quiet", "--"):
        option = arguments.pop(0)
        check, quiet = check or option == "--check", quiet or option == "--quiet"
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        import tensorfleet

        print("tensorfleet %s (TensorFlow %s)" % (tensorfleet.__tensorfleet_version__, tensorfleet.__version__))
        return 0
    first = arguments.pop(0)
    if first in ("-m", "-c"):
        if not arguments:
            print("python -m tensorfleet: %s needs %s" % (first, "a module" if first == "-m" else "code"), file=sys.stderr)
            return 2
        target = arguments.pop(0)
    elif first.startswith("-") and first != "-":
        print("python -m tensorfleet: there is no option %s\n%s" % (first, USAGE), end="", file=sys.stderr)
        return 2
    else:
        target = first
    if check:
        return _check(first, target)
    hook.install_as_tensorflow(quiet=quiet)
    runner = {"-m": _run_module, "-c": _run_code}.get(first, _run_script)
    return _guarded(runner, target, arguments)


def _check(first, target):
    from . import scan

    if first == "-c":
        found = scan.scan_source(target, "<string>")
    elif first == "-m":
        import importlib.util

        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(target)
        if spec is None or not spec.origin:
            print("python -m tensorfleet: no module named %s" % target, file=sys.stderr)
            return 2
        found = scan.scan(spec.origin)
    else:
        if not os.path.isfile(target):
            print("python -m tensorfleet: there is no file %s" % target, file=sys.stderr)
            return 2
        found = scan.scan(target)
    print(found.report())
    return 1 if found or found.problems else 0


def _fresh_main(name):
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=name, __builtins__=builtins, __cached__=None, __spec__=None, __loader__=None, __package__=None)
    if name is None:
        del module.__file__
    sys.modules["__main__"] = module
    return module.__dict__


def _path(first):
    """Python puts the program's folder first in the path, unless it was told not to."""
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        sys.path[0] = first


def _run_script(script, arguments):
    sys.argv = [script] + arguments
    if script == "-":
        _path("")
        return exec(compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), _fresh_main(None))
    if os.path.isdir(script) or script.endswith((".zip", ".pyz")):
        return runpy.run_path(script, run_name="__main__")
    _path(os.path.dirname(os.path.realpath(script)))
    with io.open_code(os.path.abspath(script)) as file:
        source = file.read()
    exec(compile(source, script, "exec", dont_inherit=True), _fresh_main(script))


def _run_module(name, arguments):
    sys.argv = [name] + arguments
    _path(os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code, arguments):
    sys.argv = ["-c"] + arguments
    _path("")
    exec(compile(code, "<string>", "exec", dont_inherit=True), _fresh_main(None))


def _guarded(runner, target, arguments):
    """Runs the program. An exception is shown as Python shows it, without the frames of this runner."""
    try:
        runner(target, arguments)
    except SystemExit:
        raise
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (target, os.path.abspath(target)) and not os.path.exists(target):
            print("python -m tensorfleet: can't open file %r: [Errno %d] %s" % (target, error.errno, error.strerror), file=sys.stderr)
            return 2
        _show(error, target)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _ours(frame):
    name = frame.f_code.co_filename
    return name == __file__ or name == "<frozen runpy>" or name == runpy.__file__


def _show(error, target):
    trace = error.__traceback__
    while trace is not None and _ours(trace.tb_frame):
        trace = trace.tb_next
    sys.stdout.flush()
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)
    lines = python2.of_exception(error)
    if isinstance(error, SyntaxError) and error.filename and os.path.isfile(error.filename):
        with open(error.filename, errors="replace") as file:
            lines = python2.of_syntax_error(error, file.read(), error.filename)
    for line in lines:
        print("hint: " + line, file=sys.stderr)
