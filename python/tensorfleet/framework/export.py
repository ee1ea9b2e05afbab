"""Which names below `tf.` a function or class has.

Modules say it where they define a thing; `python -m tensorfleet.framework.export` imports all modules and writes the table
`_names.py`, from which the package finds a name without importing the rest.
"""

import importlib
import os
import pkgutil
import sys

#: Name below `tf.` -> (module, attribute).
EXPORTED = {}


def export(*names):
    """Offers a function or class under these names below `tf.`."""

    def offer(thing):
        for name in names:
            _offer(name, thing.__module__, thing.__qualname__)
        return thing

    return offer


def _offer(name, module, attribute):
    """Two things of one name would make what a program gets depend on what it imported first."""
    before = EXPORTED.setdefault(name, (module, attribute))
    if before != (module, attribute):
        raise ValueError(f"tf.{name} is offered as {before} and as {(module, attribute)}")


def export_values(module, names):
    """Offers attributes of `module`: a dict of the name below `tf.` and the attribute."""
    for name, attribute in names.items():
        _offer(name, module, attribute)


def import_all():
    """Imports every module of the package, so that `EXPORTED` is complete."""
    package = importlib.import_module("tensorfleet")
    for module in pkgutil.walk_packages(package.__path__, "tensorfleet."):
        last = module.name.rpartition(".")[2]
        if last not in ("__main__", "_native"):
            importlib.import_module(module.name)
    return EXPORTED


def write_table():
    """Writes `_names.py`."""
    names = import_all()
    modules = sorted({module for module, _ in names.values()})
    lines = ['"""Made by `python -m tensorfleet.framework.export`: name below `tf.` -> module, attribute."""', "", "MODULES = ("]
    lines += [f'    "{module.removeprefix("tensorfleet.")}",' for module in modules]
    lines += [")", "", "NAMES = {"]
    for name, (module, attribute) in sorted(names.items()):
        lines.append(f'    "{name}": ({modules.index(module)}, "{attribute}"),')
    lines += ["}", ""]
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_names.py")
    with open(path, "w") as file:
        file.write("\n".join(lines))
    print(f"{len(names)} names of {len(modules)} modules in {path}")


if __name__ == "__main__":
    # The module that others import is another object than the one that runs as a program.
    importlib.import_module("tensorfleet.framework.export").write_table()
    sys.exit(0)
