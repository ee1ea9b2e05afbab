"""Stubs for editors and type checkers, made from the names that modules export.

The package finds its names when they are used, which an editor cannot follow. So `python -m tensorfleet.framework.stubs` writes
`__init__.pyi` and, for every module below `tf.`, a file in `_stubs`: what stands in a source file is imported from there, with its
signature and its documentation; what is made from a table (functions of single ops, `tf.raw_ops`) is written out. All names are there.
With `--check DIR` nothing is written, and what differs in the sources of DIR is named.
"""

import ast
import importlib
import inspect
import keyword
import os
import sys

HEAD = '"""Made by `python -m tensorfleet.framework.stubs`: {}."""\n'


class Sources:
    """What stands at the top of modules' source files, and can be imported from there."""

    def __init__(self):
        self._names = {}

    def has(self, module, name):
        """Whether `name` is bound by a statement at the top of the module."""
        if module not in self._names:
            self._names[module] = frozenset(self._read(module))
        return name in self._names[module]

    @staticmethod
    def _read(module):
        path = getattr(importlib.import_module(module), "__file__", None)
        if path is None or not path.endswith(".py"):
            return
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    yield (alias.asname or alias.name).partition(".")[0]
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id


def tree_of(names):
    """The namespaces below `tf.`: prefix -> names of things, names of namespaces. A thing with names below it is both."""
    tree = {"": (set(), set())}
    for name in names:
        parts = name.split(".")
        for depth in range(len(parts) - 1):
            prefix, inner = ".".join(parts[:depth]), ".".join(parts[: depth + 1])
            tree.setdefault(prefix, (set(), set()))[1].add(parts[depth])
            tree.setdefault(inner, (set(), set()))
        tree[".".join(parts[:-1])][0].add(parts[-1])
    return tree


def default_text(value):
    """A default as it is written; what has no short form is `...`."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return repr(value)
    return "..."


def signature_text(thing):
    """The parameters of a function or class as a stub writes them."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(*args, **kwargs)"
    words, is_keyword_only = [], False
    parameters = list(signature.parameters.values())
    for position, parameter in enumerate(parameters):
        name = parameter.name
        if keyword.iskeyword(name):
            return "(*args, **kwargs)"
        if parameter.kind is parameter.VAR_POSITIONAL:
            name, is_keyword_only = f"*{name}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            name = f"**{name}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            words.append("*")
            is_keyword_only = True
        if parameter.default is not parameter.empty:
            name += f"={default_text(parameter.default)}"
        words.append(name)
        is_last_positional = parameter.kind is parameter.POSITIONAL_ONLY and (
            position + 1 == len(parameters) or parameters[position + 1].kind is not parameter.POSITIONAL_ONLY
        )
        if is_last_positional:
            words.append("/")
    return f"({', '.join(words)})"


def type_text(value):
    """The type of a value, if everybody knows it."""
    name = type(value).__name__
    return name if type(value).__module__ == "builtins" and name in ("bool", "bytes", "float", "int", "str") else "Any"


def written_out(name, thing):
    """A definition of something that no source file has."""
    if inspect.isclass(thing):
        lines = [f"class {name}:"]
        lines += [f"    {member}: Any" for member in sorted(vars(thing)) if not member.startswith("_") and member.isidentifier()]
        lines.append(f"    def __init__{signature_text(thing).replace('(', '(self, ', 1).replace('(self, )', '(self)')} -> None: ...")
        return lines
    if callable(thing):
        return [f"def {name}{signature_text(thing)} -> Any: ..."]
    return [f"{name}: {type_text(thing)}"]


def stub_of(prefix, things, spaces, names, sources):
    """The text of the stub of one namespace."""
    imports, definitions = [], []
    for name in sorted(spaces - things):
        inner = f"{prefix}.{name}" if prefix else name
        imports.append(f"from tensorfleet._stubs import {inner.replace('.', '_')} as {name}")
    for name in sorted(things):
        if keyword.iskeyword(name):
            continue  # only getattr finds it
        module, attribute = names[f"{prefix}.{name}" if prefix else name]
        first, _, rest = attribute.partition(".")
        if sources.has(module, first) and not rest:
            imports.append(f"from {module} import {first} as {name}")
        elif sources.has(module, first):
            imports.append(f"from {module} import {first} as _{first}_of_{name}")
            definitions.append(f"{name} = _{first}_of_{name}.{rest}")
        else:
            thing = importlib.import_module(module)
            for part in attribute.split("."):
                thing = getattr(thing, part)
            definitions += written_out(name, thing)
    head = HEAD.format(f"`tf.{prefix}`" if prefix else "`tf`")
    if not prefix:
        definitions += ["__version__: str", "__tensorfleet_version__: str"]
    typing = ["from typing import Any"] if any("Any" in line for line in definitions) else []
    parts = [head.rstrip(), "\n".join(typing + imports), "\n".join(definitions)]
    return "\n\n".join(part for part in parts if part) + "\n"


def stubs():
    """Path below the package -> text of every stub."""
    from tensorfleet.framework import export

    names, sources = dict(export.import_all()), Sources()
    files = {"_stubs/__init__.pyi": HEAD.format("modules below `tf.`")}
    for prefix, (things, spaces) in tree_of(names).items():
        path = f"_stubs/{prefix.replace('.', '_')}.pyi" if prefix else "__init__.pyi"
        files[path] = stub_of(prefix, things, spaces, names, sources)
    return files


def table_differs(directory):
    """Whether `_names.py` of these sources is not the table of the modules."""
    from tensorfleet.framework import export

    found = {}
    try:
        with open(os.path.join(directory, "_names.py"), encoding="utf-8") as file:
            exec(file.read(), found)  # it is our own, and only literals
    except OSError:
        return True
    modules = [f"tensorfleet.{module}" for module in found["MODULES"]]
    written = {name: (modules[index], attribute) for name, (index, attribute) in found["NAMES"].items()}
    return written != dict(export.import_all())


def check(directory):
    """Names what differs in the sources of a directory; whether nothing did."""
    expected = stubs()
    outdated = []
    for path, text in expected.items():
        try:
            with open(os.path.join(directory, path), encoding="utf-8") as file:
                is_same = file.read() == text
        except OSError:
            is_same = False
        if not is_same:
            outdated.append(path)
    folder = os.path.join(directory, "_stubs")
    present = os.listdir(folder) if os.path.isdir(folder) else ()
    outdated += [f"_stubs/{name}" for name in present if name.endswith(".pyi") and f"_stubs/{name}" not in expected]
    if outdated:
        print(f"{len(outdated)} stubs are out of date ({', '.join(sorted(outdated)[:5])}): python -m tensorfleet.framework.stubs")
    if table_differs(directory):
        print("_names.py is out of date: python -m tensorfleet.framework.export")
        return False
    return not outdated


def write(directory):
    """Writes all stubs, and removes those of namespaces that are no more."""
    files = stubs()
    folder = os.path.join(directory, "_stubs")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".pyi") and f"_stubs/{name}" not in files:
            os.remove(os.path.join(folder, name))
    for path, text in files.items():
        with open(os.path.join(directory, path), "w", encoding="utf-8") as file:
            file.write(text)
    print(f"{len(files)} stubs in {directory}")


def main(arguments):
    """The command; its exit code."""
    if arguments[:1] == ["--check"] and len(arguments) == 2:
        return 0 if check(arguments[1]) else 1
    if arguments:
        print("usage: python -m tensorfleet.framework.stubs [--check DIR]", file=sys.stderr)
        return 2
    write(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return 0


if __name__ == "__main__":
    # The module that others import is another object than the one that runs as a program.
    sys.exit(importlib.import_module("tensorfleet.framework.stubs").main(sys.argv[1:]))
