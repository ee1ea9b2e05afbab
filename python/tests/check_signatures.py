"""Compares the names that tensorfleet offers with TensorFlow 1.15's: signatures, and what is missing.

    python python/tests/check_signatures.py [PREFIX…] [--missing]

`data/tf115_api.json.gz` has every public name of TensorFlow 1.15.5 with its arguments and defaults.
"""

import gzip
import inspect
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
#: Names whose arguments differ for a reason.
EXEMPT = {"tf.Operation": "graphs make operations; programs do not"}


def api():
    with gzip.open(os.path.join(HERE, "data", "tf115_api.json.gz"), "rt") as file:
        return json.load(file)


def wanted(spec):
    """Arguments and defaults of TensorFlow's function."""
    args = list(spec.get("args", ()))
    defaults = spec.get("defaults") or []
    return args, dict(zip(args[len(args) - len(defaults) :], defaults)), spec.get("varargs"), spec.get("varkw"), spec.get("kwonlyargs") or []


def shown(value):
    """A default as the file writes it."""
    if isinstance(value, float) or isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return repr(value)


def same_default(ours, theirs):
    if isinstance(theirs, str) and theirs.startswith("<"):
        return True
    ours = shown(ours)
    if ours == theirs:
        return True
    # Enumerations, dtypes and functions are written as text.
    return isinstance(theirs, str) and isinstance(ours, str)


def signature_of(thing, is_class):
    function = thing.__init__ if is_class and inspect.isclass(thing) else thing
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def differences(thing, entry):
    """How the signature differs; empty if it does not."""
    is_class = entry["kind"] == "class"
    spec = entry.get("init") if is_class else entry.get("spec")
    if spec is None:
        return []
    args, defaults, varargs, varkw, keyword_only = wanted(spec)
    if is_class and (varargs and varkw or not args):
        return []
    signature = signature_of(thing, is_class)
    if signature is None:
        return []
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional]
    if names and names[0] == "self":
        names, positional = names[1:], positional[1:]
    expected = args[1:] if args and args[0] == "self" else args
    found = []
    if names[: len(expected)] != expected and sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY) != sorted(expected):
        found.append(f"arguments {names}, TensorFlow has {expected}")
        return found
    by_name = {p.name: p for p in parameters}
    for name in expected:
        has = by_name[name].default is not inspect.Parameter.empty
        if has != (name in defaults):
            found.append(f"{name} {'has a default' if has else 'has no default'}")
        elif has and not same_default(by_name[name].default, defaults[name]):
            found.append(f"{name}={by_name[name].default!r}, TensorFlow has {defaults[name]!r}")
    return found


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(HERE)))
    import tensorfleet as tf
    from tensorfleet.framework import missing, namespaces

    prefixes = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    names = api()
    namespaces.TABLE.load()
    modules, wrong, unexplained = {}, 0, 0
    for name, entry in sorted(names.items()):
        below = name[len("tf.") :]
        if prefixes and not any(below == prefix or below.startswith(prefix + ".") or (prefix == "tf" and "." not in below) for prefix in prefixes):
            continue
        module = name.rpartition(".")[0]
        counts = modules.setdefault(module, [0, 0, []])
        counts[1] += 1
        if below not in namespaces.TABLE.names:
            reason = missing.reason(below)
            counts[2].append((below, reason))
            unexplained += reason is None
            continue
        counts[0] += 1
        try:
            thing = namespaces.TABLE.find(below)
        except Exception as error:
            print(f"{name}: cannot be loaded: {error}")
            wrong += 1
            continue
        found = [] if name in EXEMPT else differences(thing, entry)
        wrong += bool(found)
        for difference in found:
            print(f"{name}: {difference}")
    print()
    print(f"{'module':<28}{'offered':>8}{'of':>6}")
    for module, (offered, all_, _) in sorted(modules.items()):
        print(f"{module:<28}{offered:>8}{all_:>6}")
    offered, all_ = (sum(counts[index] for counts in modules.values()) for index in (0, 1))
    print(f"{'all':<28}{offered:>8}{all_:>6}")
    if "--missing" in sys.argv:
        for module, (_, _, absent) in sorted(modules.items()):
            for below, reason in absent:
                print(f"  {below}: {reason or 'NO REASON'}")
    print(f"{wrong} signatures differ, {unexplained} names are missing without a reason")
    assert tf is not None
    return 1 if wrong or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
