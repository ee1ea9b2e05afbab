"""`tensorfleet.missing("script.py")`: what a program uses of TensorFlow and this package lacks, found without running it.

The program is read, not run: names that it makes up at run time (`getattr(tf, name)`) are not seen. Modules that lie beside it and that it imports are
read too."""

import ast
import os
import types
from collections import namedtuple

from tensorfleet.framework import missing as known_missing
from tensorfleet.framework import namespaces
from tensorfleet.framework.export import export

from . import modules, python2

#: A name a program uses, the places (file, line) where it does, and why it is not there, if that is known.
MissingName = namedtuple("MissingName", "name places reason")
#: More files than any program of this kind has; a bound because imports could lead anywhere.
FILES = 500


class Missing(list):
    """The missing names of a program. `problems` are faults that kept a file from being read, `used` the names that were found."""

    def __init__(self, names=(), problems=(), used=()):
        super().__init__(names)
        self.problems, self.used = list(problems), sorted(used)

    def report(self):
        """As text for a terminal."""
        lines = list(self.problems)
        for name, places, reason in self:
            shown = ", ".join("%s:%d" % place for place in places[:3]) + (" and %d more" % (len(places) - 3) if len(places) > 3 else "")
            lines.append("%s  (%s)%s" % (name, shown, ": " + reason if reason else ""))
        total = len(self.used)
        lines.append("%d of the %d names of TensorFlow that the program uses are missing" % (len(self), total) if self
                     else "nothing is missing of the %d names of TensorFlow that the program uses" % total)
        return "\n".join(lines)


@export("missing")
def missing(script=None):
    """What `script` uses and tensorfleet lacks: a list of `(name, places, reason)`. Without a script: everything known to be missing, with the reason."""
    if script is None:
        return {"tf." + name: reason for name, reason in sorted(known_missing.MISSING.items())}
    return scan(script)


def scan(path):
    """Reads a program and the modules beside it."""
    state = _State(os.path.dirname(os.path.abspath(path)))
    state.read(path)
    return state.result()


def scan_source(source, name):
    """Reads a program that is a text."""
    state = _State(None)
    state.source(source, name)
    return state.result()


class _State:
    def __init__(self, folder):
        self.folder, self.seen, self.problems, self.names = folder, set(), [], {}

    def read(self, path):
        real = os.path.abspath(path)
        if real in self.seen or len(self.seen) >= FILES:
            return
        self.seen.add(real)
        with open(path, encoding="utf-8", errors="replace") as file:
            self.source(file.read(), os.path.relpath(path) if not os.path.isabs(path) else path)

    def source(self, text, name):
        try:
            tree = ast.parse(text, name)
        except SyntaxError as error:
            self.problems.append("%s, line %s: %s" % (name, error.lineno, error.msg))
            self.problems += python2.of_syntax_error(error, text, name)
            return
        reader = _Reader(self, name)
        reader.visit(tree)

    def use(self, path, place):
        self.names.setdefault(path, []).append(place)

    def beside(self, module):
        """Reads a module that lies beside the program."""
        if self.folder is None:
            return
        base = os.path.join(self.folder, *module.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                self.read(candidate)

    def result(self):
        found = []
        for path in sorted(self.names):
            lack = lacking(path)
            if lack is not None:
                name = "tf." + lack if not lack.startswith(("python.", "core.")) else "tensorflow." + lack
                found.append((name, self.names[path], known_missing.reason(lack)))
        merged = {}
        for name, places, reason in found:
            merged.setdefault(name, (reason, []))[1].extend(places)
        names = [MissingName(name, sorted(places), reason) for name, (reason, places) in sorted(merged.items())]
        return Missing(names, self.problems, self.names)


class _Reader(ast.NodeVisitor):
    """Follows the names under which a program knows TensorFlow and its parts."""

    def __init__(self, state, file):
        self.state, self.file = state, file
        self.known = {}

    def place(self, node):
        return self.file, node.lineno

    def visit_Import(self, node):
        for alias in node.names:
            top, _, rest = alias.name.partition(".")
            if top != "tensorflow":
                self.state.beside(alias.name)
                continue
            if rest:
                self.state.use(rest, self.place(node))
            self.known[alias.asname or "tensorflow"] = rest if alias.asname else ""

    def visit_ImportFrom(self, node):
        module = node.module or ""
        if node.level or module.partition(".")[0] != "tensorflow":
            self.state.beside(module)
            for alias in node.names:
                self.state.beside((module + "." + alias.name).strip("."))
            return
        rest = module.partition(".")[2]
        for alias in node.names:
            if alias.name == "*":
                if rest:
                    self.state.use(rest, self.place(node))
                continue
            path = (rest + "." + alias.name).strip(".")
            self.state.use(path, self.place(node))
            self.known[alias.asname or alias.name] = path

    def visit_Assign(self, node):
        self.generic_visit(node)
        path = self.path(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if path is not None:
                    self.known[target.id] = path
                elif target.id in self.known and self.known[target.id] != "":
                    del self.known[target.id]

    def path(self, node):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.known:
            return ".".join(([self.known[node.id]] if self.known[node.id] else []) + parts[::-1])
        return None

    def visit_Attribute(self, node):
        path = self.path(node)
        if path:
            self.state.use(path, self.place(node))
        else:
            self.generic_visit(node)


def lacking(path):
    """The shortest part of a path below `tensorflow` that is not there, or None if all of it is (or lies inside a value, which only a run can tell)."""
    while path == "compat.v1" or path.startswith("compat.v1."):
        path = path[len("compat.v1."):]
    if not path:
        return None
    here, done = None, []
    for part in path.split("."):
        done.append(part)
        name = ".".join(done)
        found = modules.resolve("tensorflow." + name) if here is None or isinstance(here, types.ModuleType) else None
        if found is None and here is not None and hasattr(here, part):
            found = getattr(here, part)
        if found is None and (here is None or isinstance(here, types.ModuleType)):
            found = _public(name)
        if found is None:
            return name if here is None or isinstance(here, (types.ModuleType, type)) else None
        if not isinstance(found, (types.ModuleType, type)):
            return None
        here = found
    return None


def _public(name):
    try:
        return namespaces.TABLE.find(name)
    except AttributeError:
        return None
