"""Hints for programs written for Python 2: what is old, on which line, and what to write instead."""

import re

#: What a line looks like, what it is, and what Python 3 writes.
_LINES = (
    (re.compile(r"^\s*print\s*>>\s*\w"), "`print >>file` is Python 2", "write print(…, file=…)"),
    (re.compile(r"""(^|[:;])\s*print\s+(?![=(\[.])\S|(^|[:;])\s*print\s*$|^\s*print\s+\(.*\)\s*%|^\s*print\s+\(.*\)\s*,"""), "a print statement is Python 2", "write print(…)"),
    (re.compile(r"^\s*except\s+[\w.()\s,]+?,\s*\w+\s*:"), "`except Error, name` is Python 2", "write `except Error as name`"),
    (re.compile(r"^\s*raise\s+[\w.]+\s*,\s*\S"), "`raise Error, text` is Python 2", "write raise Error(text)"),
    (re.compile(r"`[^`]+`"), "backticks are Python 2", "write repr(…)"),
    (re.compile(r"\bexec\s+['\"\w]"), "an exec statement is Python 2", "write exec(…)"),
    (re.compile(r"<>"), "`<>` is Python 2", "write !="),
    (re.compile(r"\b0[0-7]+\b(?!\.)"), "an octal number such as 0777 is Python 2", "write 0o777"),
    (re.compile(r"\b\d+[lL]\b"), "a long number such as 10L is Python 2", "leave out the L"),
    (re.compile(r"\bur['\"]"), "ur'' is Python 2", "write r''"),
    (re.compile(r"\blambda\s*\(|^\s*def\s+\w+\(.*\(\w+\s*,\s*\w+\).*\)\s*:"), "a tuple as a parameter is Python 2", "unpack it in the body"),
)
_NAMES = {
    "xrange": "range", "unicode": "str", "raw_input": "input", "basestring": "str", "long": "int", "unichr": "chr", "reduce": "functools.reduce",
    "execfile": "exec(open(…).read())", "cmp": "(a > b) - (a < b)", "file": "open", "reload": "importlib.reload", "apply": "f(*args)", "buffer": "memoryview",
}
_METHODS = {"iteritems": "items", "itervalues": "values", "iterkeys": "keys", "has_key": "`key in d`", "viewitems": "items"}
_MODULES = {
    "Queue": "queue", "cPickle": "pickle", "ConfigParser": "configparser", "StringIO": "io", "cStringIO": "io", "urllib2": "urllib.request",
    "urlparse": "urllib.parse", "commands": "subprocess", "thread": "_thread", "__builtin__": "builtins", "httplib": "http.client",
    "SocketServer": "socketserver", "Tkinter": "tkinter", "itertools.izip": "zip", "sets": "set",
}
ADVICE = "Tensorfleet runs on Python 3: convert the program, for example with 2to3 (part of Python up to 3.12)"


def _code(line):
    """A line without its comment and the insides of its strings, so that words in texts are not taken for code."""
    line = re.sub(r"('''|\"\"\").*?\1", "''", line)
    line = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "''", line)
    return line.partition("#")[0]


def hints(source, near=None, limit=3):
    """What looks like Python 2 in a program: pairs of line number and words. `near` is the line that Python stumbled over, which comes first."""
    found, inside = [], False
    for number, line in enumerate(source.splitlines(), 1):
        quotes = line.count('"""') + line.count("'''")
        if inside or quotes % 2:
            inside ^= quotes % 2 == 1
            continue
        code = _code(line)
        for pattern, what, instead in _LINES:
            if pattern.search(code):
                found.append((number, "%s: %s" % (what, instead)))
                break
    found.sort(key=lambda hint: (hint[0] != near, hint[0]))
    return found[:limit]


def of_syntax_error(error, source, name):
    """Lines to show below a syntax error, if it looks like Python 2."""
    found = hints(source, error.lineno)
    # A fault that Python sees on a later line often begins on an earlier one; one far from anything old is just a fault.
    if not found or error.lineno is not None and abs(found[0][0] - error.lineno) > 3:
        return []
    return ["%s, line %d: %s" % (name, line, words) for line, words in found] + [ADVICE]


def of_exception(error):
    """Lines to show below an exception that Python 2 would not have raised."""
    what = None
    if isinstance(error, NameError):
        match = re.match(r"name '(\w+)' is not defined", str(error))
        if match and match.group(1) in _NAMES:
            what = "`%s` is Python 2: write %s" % (match.group(1), _NAMES[match.group(1)])
    elif isinstance(error, ModuleNotFoundError) and error.name in _MODULES:
        what = "the module `%s` is Python 2: import %s" % (error.name, _MODULES[error.name])
    elif isinstance(error, AttributeError):
        match = re.search(r"'dict' object has no attribute '(\w+)'", str(error))
        if match and match.group(1) in _METHODS:
            what = "`.%s` is Python 2: write %s" % (match.group(1), _METHODS[match.group(1)])
    if what is None:
        return []
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else "%s, line %d: " % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return [place + what, ADVICE]
