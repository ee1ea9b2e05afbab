"""Made by `python -m tensorfleet.framework.stubs`: `tf.errors`."""

from tensorfleet.framework.errors import OK as OK
from tensorfleet.framework.errors import OpError as OpError
from tensorfleet.framework.errors import error_code_from_exception_type as error_code_from_exception_type
from tensorfleet.framework.errors import exception_type_from_error_code as exception_type_from_error_code
from tensorfleet.framework.errors import raise_exception_on_not_ok_status as raise_exception_on_not_ok_status

ABORTED: int
ALREADY_EXISTS: int
class AbortedError:
    def __init__(self, node_def, op, message) -> None: ...
class AlreadyExistsError:
    def __init__(self, node_def, op, message) -> None: ...
CANCELLED: int
class CancelledError:
    def __init__(self, node_def, op, message) -> None: ...
DATA_LOSS: int
DEADLINE_EXCEEDED: int
class DataLossError:
    def __init__(self, node_def, op, message) -> None: ...
class DeadlineExceededError:
    def __init__(self, node_def, op, message) -> None: ...
FAILED_PRECONDITION: int
class FailedPreconditionError:
    def __init__(self, node_def, op, message) -> None: ...
INTERNAL: int
INVALID_ARGUMENT: int
class InternalError:
    def __init__(self, node_def, op, message) -> None: ...
class InvalidArgumentError:
    def __init__(self, node_def, op, message) -> None: ...
NOT_FOUND: int
class NotFoundError:
    def __init__(self, node_def, op, message) -> None: ...
OUT_OF_RANGE: int
class OutOfRangeError:
    def __init__(self, node_def, op, message) -> None: ...
PERMISSION_DENIED: int
class PermissionDeniedError:
    def __init__(self, node_def, op, message) -> None: ...
RESOURCE_EXHAUSTED: int
class ResourceExhaustedError:
    def __init__(self, node_def, op, message) -> None: ...
UNAUTHENTICATED: int
UNAVAILABLE: int
UNIMPLEMENTED: int
UNKNOWN: int
class UnauthenticatedError:
    def __init__(self, node_def, op, message) -> None: ...
class UnavailableError:
    def __init__(self, node_def, op, message) -> None: ...
class UnimplementedError:
    def __init__(self, node_def, op, message) -> None: ...
class UnknownError:
    def __init__(self, node_def, op, message, error_code=2) -> None: ...
