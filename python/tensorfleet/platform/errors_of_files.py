"""What the system says about files, as TensorFlow's errors."""

import contextlib
import errno


@contextlib.contextmanager
def translated(path, other=None):
    """Runs a file operation; an `OSError` becomes the error TensorFlow raises, with the path and the system's words."""
    try:
        yield
    except OSError as error:
        raise _error(error, path, other) from None


def _error(error, path, other):
    from tensorfleet.framework import errors

    kind = {
        errno.ENOENT: errors.NotFoundError, errno.EEXIST: errors.AlreadyExistsError, errno.EACCES: errors.PermissionDeniedError,
        errno.EPERM: errors.PermissionDeniedError, errno.ENOTDIR: errors.FailedPreconditionError, errno.EISDIR: errors.FailedPreconditionError,
        errno.ENOTEMPTY: errors.FailedPreconditionError, errno.ENOSPC: errors.ResourceExhaustedError, errno.EROFS: errors.FailedPreconditionError,
        errno.EINVAL: errors.InvalidArgumentError, errno.ENAMETOOLONG: errors.InvalidArgumentError,
    }.get(error.errno, errors.UnknownError)
    # The system's words stand alone: Python puts the number and the path around them.
    words = error.strerror or str(error)
    place = path if other is None else "%s to %s" % (path, other)
    return kind(None, None, "%s; %s" % (place, words))
