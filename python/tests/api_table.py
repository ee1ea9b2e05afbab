"""Prints, as Markdown, how many of TensorFlow 1.15's names tensorfleet offers, per module, and which not, and why.

`cargo xtask api` puts it into `docs/python-api.md`.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import check_signatures  # noqa: E402
from tensorfleet.framework import missing, namespaces  # noqa: E402

NO_REASON = "no reason is given"


def counts(names, offered):
    """Module -> how many of its names are offered, how many it has, and which are missing."""
    modules = {}
    for name in sorted(names):
        below = name[len("tf.") :]
        entry = modules.setdefault(name.rpartition(".")[0], [0, 0, []])
        entry[1] += 1
        if below in offered:
            entry[0] += 1
        else:
            entry[2].append(below)
    return modules


def table(modules):
    """The numbers, one row for a module."""
    yield "| module | offered | of | share |"
    yield "| --- | ---: | ---: | ---: |"
    rows = [(f"`{module}`", offered, all_) for module, (offered, all_, _) in sorted(modules.items())]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    for module, offered, all_ in rows:
        yield f"| {module} | {offered} | {all_} | {100 * offered // all_} % |"


def rule_of(below):
    """The pattern of `missing.MISSING` that explains a name, and its reason."""
    if below in missing.MISSING:
        return below, missing.MISSING[below]
    parts = below.split(".")
    for depth in range(len(parts), 0, -1):
        pattern = ".".join(parts[:depth]) + ".*"
        if pattern in missing.MISSING:
            return pattern, missing.MISSING[pattern]
    return below, NO_REASON


def absent(modules):
    """What is missing, by reason: names, or a pattern and how many it stands for."""
    by_reason = {}
    for _, _, names in modules.values():
        for below in names:
            pattern, reason = rule_of(below)
            patterns = by_reason.setdefault(reason, {})
            patterns[pattern] = patterns.get(pattern, 0) + 1
    for reason, patterns in sorted(by_reason.items(), key=lambda item: (item[0] == NO_REASON, item[0])):
        words = [f"`tf.{pattern}`" + (f" ({count})" if pattern.endswith(".*") else "") for pattern, count in sorted(patterns.items())]
        yield f"- {reason}: {', '.join(words)}"


def main():
    """Prints the table."""
    namespaces.TABLE.load()
    modules = counts(check_signatures.api(), namespaces.TABLE.names)
    lines = list(table(modules)) + ["", "Missing, with the reason:", ""] + list(absent(modules))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
