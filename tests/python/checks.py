"""Named checks with one line of JSON for each.

Importing TensorFlow takes seconds, so a script holds many checks. A check is a function decorated with `@check`; it
gets the cluster and fails by raising. The harness reads the lines; a person can read them as well:

    {"check": "feeds_and_fetches", "ok": true, "seconds": 0.1, "detail": null}
"""

import functools
import json
import os
import sys
import time
import traceback

import cluster as cluster_flags

_checks = []


def check(function):
    """Registers a check under the function's name."""
    _checks.append((function.__name__, function))
    return function


def check_for(**cases):
    """Registers a check once per case: the case's value is passed on and its name is appended."""

    def register(function):
        for case, value in cases.items():
            _checks.append((function.__name__ + "_" + case, functools.partial(function, case=value)))
        return function

    return register


def expect(condition, message, *arguments):
    """Like `assert`, with the values that were seen."""
    if not condition:
        raise AssertionError(message % arguments)


def expect_error(error_type, function, *arguments, **keywords):
    """Runs what must fail in just this way; gives the error."""
    try:
        result = function(*arguments, **keywords)
    except error_type as error:
        # Subclasses of one base: the code must be this type's own.
        return error
    raise AssertionError("expected %s, but got the result %r" % (error_type.__name__, result))


def ask(request, **details):
    """Asks whoever runs this script to do something, such as to restart a server, and waits until it is done.

    The harness answers with a line; so can a person.
    """
    print(json.dumps(dict(details, ask=request)), flush=True)
    answer = sys.stdin.readline().strip()
    expect(answer == "done", "asked for '%s' and was told '%s'", request, answer)


def emit(name, ok, seconds, detail):
    print(json.dumps({"check": name, "ok": ok, "seconds": round(seconds, 3), "detail": detail}), flush=True)


def run_check(name, function, *arguments):
    """Runs one check and says how it went; whether it passed."""
    begin = time.time()
    try:
        detail = function(*arguments)
    except Exception:  # Whatever went wrong is the finding.
        emit(name, False, time.time() - begin, traceback.format_exc(limit=-4)[-6000:])
        return False
    emit(name, True, time.time() - begin, detail)
    return True


def main(description, parser=None, prepare=None):
    """Runs the registered checks; `prepare` makes the argument they get from the flags (by default, the cluster)."""
    parser = parser or cluster_flags.argument_parser(description)
    parser.add_argument("--only", default="", help="run only checks whose name contains this")
    parser.add_argument("--skip", default="", help="leave out checks whose name contains one of these, comma between")
    flags = parser.parse_args()
    subject = (prepare or cluster_flags.from_flags)(flags)
    skipped = [text for text in flags.skip.split(",") if text]
    chosen = [
        (name, function)
        for name, function in _checks
        if flags.only in name and not any(text in name for text in skipped)
    ]
    failed = [name for name, function in chosen if not run_check(name, function, subject)]
    sys.stdout.flush()
    # Threads of a failed check may still wait for a server; the interpreter must not wait for them.
    os._exit(1 if failed or not chosen else 0)
