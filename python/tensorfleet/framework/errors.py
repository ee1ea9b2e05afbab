"""Exceptions of runs, servers and files: `tf.errors.*`."""

import re

from tensorfleet.framework.export import export, export_values

#: Code -> the name of its exception without "Error".
_CODES = (
    (1, "CANCELLED", "CancelledError"),
    (2, "UNKNOWN", "UnknownError"),
    (3, "INVALID_ARGUMENT", "InvalidArgumentError"),
    (4, "DEADLINE_EXCEEDED", "DeadlineExceededError"),
    (5, "NOT_FOUND", "NotFoundError"),
    (6, "ALREADY_EXISTS", "AlreadyExistsError"),
    (7, "PERMISSION_DENIED", "PermissionDeniedError"),
    (8, "RESOURCE_EXHAUSTED", "ResourceExhaustedError"),
    (9, "FAILED_PRECONDITION", "FailedPreconditionError"),
    (10, "ABORTED", "AbortedError"),
    (11, "OUT_OF_RANGE", "OutOfRangeError"),
    (12, "UNIMPLEMENTED", "UnimplementedError"),
    (13, "INTERNAL", "InternalError"),
    (14, "UNAVAILABLE", "UnavailableError"),
    (15, "DATA_LOSS", "DataLossError"),
    (16, "UNAUTHENTICATED", "UnauthenticatedError"),
)
OK = 0
_NODE = re.compile(r"\[\[\{\{node ([^{}]*)\}\}[^\]]*\]\]|\{\{node ([^{}]*)\}\}")


@export("OpError", "errors.OpError")
class OpError(Exception):
    """An error while a graph runs."""

    def __init__(self, node_def, op, message, error_code):
        super().__init__()
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code

    @property
    def message(self):
        return self._message

    @property
    def op(self):
        """The operation that failed, if it is known."""
        return self._op

    @property
    def error_code(self):
        return self._error_code

    @property
    def node_def(self):
        return self._node_def

    def __str__(self):
        if self._op is None:
            return self.message
        place = self._op._made_at()
        if not place:
            return self.message
        lines = [self.message, "", f"Original stack trace for {self._op.name!r}:"]
        return "\n".join(lines + [f"  File \"{file}\", line {line}" for file, line in place]) + "\n"

    def __reduce__(self):
        return _restored, (type(self), self._message, self._error_code)


def _restored(kind, message, code):
    return OpError(None, None, message, code) if kind is OpError else kind(None, None, message)


def _make(number, class_name):
    def __init__(self, node_def, op, message):
        OpError.__init__(self, node_def, op, message, number)

    if class_name == "UnknownError":

        def __init__(self, node_def, op, message, error_code=number):
            OpError.__init__(self, node_def, op, message, error_code)

    doc = f"An error with the code {number}."
    return type(class_name, (OpError,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


_BY_CODE = {}
for _number, _code, _class in _CODES:
    globals()[_code] = _number
    globals()[_class] = _BY_CODE[_number] = _make(_number, _class)

export_values(__name__, {f"errors.{name}": name for _, code, name in _CODES for name in (code, name)})
export_values(__name__, {"errors.OK": "OK"})


@export("errors.exception_type_from_error_code")
def exception_type_from_error_code(error_code):
    """The class of exceptions with this code."""
    return _BY_CODE[error_code]


@export("errors.error_code_from_exception_type")
def error_code_from_exception_type(cls):
    """The code of a class of exceptions."""
    try:
        return next(number for number, kind in _BY_CODE.items() if kind is cls)
    except StopIteration:
        raise KeyError(cls) from None


@export("errors.raise_exception_on_not_ok_status")
class raise_exception_on_not_ok_status:
    """Kept for programs that enter it: errors are raised where they happen."""

    def __enter__(self):
        return None

    def __exit__(self, kind, value, traceback):
        return False


def from_status(code, message, node_name=None):
    """The exception for an error of the library. Sessions add the operation."""
    error = _BY_CODE.get(code, _BY_CODE[2])(None, None, message)
    error._node_name = node_name
    return error


def explained(error, graph):
    """The error with the operation that failed, and where the program made the nodes it names."""
    name = getattr(error, "_node_name", None)
    match = None if name else _NODE.search(error._message)
    if match is not None:
        name = match.group(1) or match.group(2)
    op = graph._find_operation(name.strip()) if name else None
    if op is None:
        return error

    def with_place(found):
        node = graph._find_operation((found.group(1) or found.group(2)).strip())
        place = node._made_at() if node is not None else ()
        if not place:
            return found.group(0)
        file, line = place[0]
        text = f"node {node.name} (defined at {file}:{line}) "
        return f"[[{text}]]" if found.group(1) else "{{" + text + "}}"

    error._op = op
    error._node_def = op.node_def
    error._message = _NODE.sub(with_place, error._message)
    return error
