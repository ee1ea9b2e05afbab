"""`tf.gfile` and `tf.io.gfile`: files of this machine, by path or `file://` address, with TensorFlow's errors."""

import fnmatch
import os
import re
import shutil
import tempfile

from tensorfleet.framework.export import export

from .compat import as_bytes, as_text
from .errors_of_files import translated

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9.]*)://")


def _errors():
    from tensorfleet.framework import errors

    return errors


def local(path):
    """The path on this machine that a name stands for."""
    if hasattr(path, "__fspath__"):
        path = os.fspath(path)
    path = as_text(as_bytes(path))
    match = _SCHEME.match(path)
    if match is None:
        return path
    if match.group(1) == "file":
        return path[len("file://"):]
    raise _errors().UnimplementedError(None, None, "File system scheme '%s' not implemented (file: '%s')" % (match.group(1), path))


class FileIO:
    """A file that is opened when it is first read or written."""

    def __init__(self, name, mode):
        self._name, self._mode = name, mode
        if mode.replace("b", "") not in ("r", "w", "a", "r+", "w+", "a+"):
            raise _errors().InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._binary = "b" in mode
        plain = mode.replace("b", "")
        self._reads, self._writes = plain in ("r", "r+", "w+", "a+"), plain in ("w", "a", "r+", "w+", "a+")
        self._file = None

    @property
    def name(self):
        return self._name

    @property
    def mode(self):
        return self._mode

    def _open(self):
        if self._file is None:
            path = local(self._name)
            with translated(path):
                if os.path.isdir(path):
                    raise IsADirectoryError(21, os.strerror(21))
                self._file = open(path, self._mode.replace("b", "") + "b")
        return self._file

    def _reading(self):
        if not self._reads:
            raise _errors().PermissionDeniedError(None, None, "File isn't open for reading")
        return self._open()

    def _value(self, data):
        return data if self._binary else data.decode("utf-8")

    def size(self):
        """The number of bytes in the file."""
        if self._file is not None and self._writes:
            self._file.flush()
        return stat(self._name).length

    def read(self, n=-1):
        """The next `n` bytes, or all that is left, as text unless the mode says binary."""
        if n < -1:
            raise _errors().InvalidArgumentError(None, None, "n should be greater or equal to -1.")
        return self._value(self._reading().read(n))

    def readline(self):
        """The next line with its end, or nothing at the end of the file."""
        return self._value(self._reading().readline())

    def readlines(self):
        """All lines that are left."""
        return list(iter(self.readline, b"" if self._binary else ""))

    def write(self, file_content):
        """Writes text or bytes."""
        if not self._writes:
            raise _errors().PermissionDeniedError(None, None, "File isn't open for writing")
        with translated(self._name):
            self._open().write(as_bytes(file_content))

    def seek(self, offset=None, whence=0, position=None):
        """Moves to a place in the file. `position` is the old name of `offset`."""
        self._reading()
        if offset is None and position is None:
            raise TypeError("seek(): offset argument required")
        if whence not in (0, 1, 2):
            raise _errors().InvalidArgumentError(None, None, "Invalid whence argument: %s. Valid values are 0, 1, or 2." % (whence,))
        self._file.seek(position if offset is None else offset, whence)

    def tell(self):
        """The place in the file."""
        return (self._reading() if self._reads else self._open()).tell()

    def seekable(self):
        return True

    def flush(self):
        """Hands what was written to the system."""
        if self._file is not None:
            with translated(self._name):
                self._file.flush()

    def close(self):
        """Closes the file; a later read opens it anew."""
        if self._file is not None:
            file, self._file = self._file, None
            with translated(self._name):
                file.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __iter__(self):
        return self

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            self._file.close()


@export("gfile.GFile", "gfile.Open", "io.gfile.GFile")
class GFile(FileIO):
    """A file, by path or `file://` address."""

    def __init__(self, name, mode="r"):
        super().__init__(name, mode)


@export("gfile.FastGFile")
class FastGFile(FileIO):
    """A file, by path or `file://` address. The old name of `GFile`."""

    def __init__(self, name, mode="r"):
        super().__init__(name, mode)


class FileStatistics:
    """Length in bytes, time of the last change in nanoseconds, and whether it is a folder."""

    def __init__(self, status):
        self.length, self.mtime_nsec = status.st_size, status.st_mtime_ns
        self.is_directory = os.path.stat.S_ISDIR(status.st_mode)

    def __repr__(self):
        return "<FileStatistics length=%d mtime_nsec=%d is_directory=%s>" % (self.length, self.mtime_nsec, self.is_directory)


@export("io.gfile.exists")
def exists(path):
    """Whether there is a file or folder."""
    return os.path.exists(local(path))


@export("io.gfile.remove")
def remove(path):
    """Deletes a file."""
    path = local(path)
    with translated(path):
        if os.path.isdir(path):
            raise IsADirectoryError(21, os.strerror(21))
        os.remove(path)


@export("io.gfile.glob")
def glob(pattern):
    """The files that match a pattern, or one of several, each as a full path. Stars do not match `/`."""
    found = []
    for one in [pattern] if isinstance(pattern, (bytes, str)) or hasattr(pattern, "__fspath__") else pattern:
        one = local(one)
        fixed = re.split(r"[*?\[\\]", one, maxsplit=1)[0]
        if fixed == one:
            found += [one] if os.path.exists(one) else []
            continue
        root = os.path.dirname(fixed) or "."
        with translated(root):
            os.listdir(root)
        found += _matching(root, one[len(os.path.dirname(fixed)):].lstrip("/").split("/"), os.path.dirname(fixed))
    return found


def _matching(folder, parts, shown):
    if not parts:
        return [shown]
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if fnmatch.fnmatchcase(name, parts[0]):
            found += _matching(os.path.join(folder, name), parts[1:], shown.rstrip("/") + "/" + name if shown else name)
    return found


@export("io.gfile.mkdir")
def mkdir(path):
    """Makes a folder; it may be there already."""
    path = local(path)
    with translated(path):
        if not os.path.isdir(path):
            os.mkdir(path)


@export("io.gfile.makedirs")
def makedirs(path):
    """Makes a folder and those above it."""
    path = local(path)
    with translated(path):
        os.makedirs(path, exist_ok=True)


@export("io.gfile.copy")
def copy(src, dst, overwrite=False):
    """Copies a file."""
    source, target = local(src), local(dst)
    if not overwrite and os.path.exists(target):
        raise _errors().AlreadyExistsError(None, None, "file already exists")
    with translated(source):
        shutil.copyfile(source, target)


@export("io.gfile.rename")
def rename(src, dst, overwrite=False):
    """Renames a file or folder."""
    source, target = local(src), local(dst)
    if not overwrite and os.path.exists(target):
        raise _errors().AlreadyExistsError(None, None, "file already exists")
    with translated(source):
        os.replace(source, target)


@export("io.gfile.rmtree")
def rmtree(path):
    """Deletes a folder and everything in it."""
    path = local(path)
    if not os.path.exists(path):
        raise _errors().NotFoundError(None, None, "%s not found" % path)
    with translated(path):
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@export("io.gfile.isdir")
def isdir(path):
    """Whether there is a folder."""
    return os.path.isdir(local(path))


@export("io.gfile.listdir")
def listdir(path):
    """The names in a folder."""
    if not isdir(path):
        raise _errors().NotFoundError(None, None, "Could not find directory %s" % as_text(as_bytes(path) if isinstance(path, bytes) else str(path)))
    path = local(path)
    with translated(path):
        return os.listdir(path)


@export("io.gfile.stat")
def stat(path):
    """Length, time of the last change, and kind."""
    path = local(path)
    with translated(path):
        return FileStatistics(os.stat(path))


@export("io.gfile.walk")
def walk(top, topdown=True, onerror=None):
    """Folder, folders in it, files in it; for a folder and all below it."""
    return os.walk(local(top), topdown, onerror)


@export("gfile.Exists")
def file_exists(filename):
    """Whether there is a file or folder."""
    return exists(filename)


@export("gfile.Remove")
def delete_file(filename):
    """Deletes a file."""
    remove(filename)


@export("gfile.Glob")
def get_matching_files(filename):
    """The files that match a pattern, or one of several."""
    return glob(filename)


@export("gfile.MkDir")
def create_dir(dirname):
    """Makes a folder; it may be there already."""
    mkdir(dirname)


@export("gfile.MakeDirs")
def recursive_create_dir(dirname):
    """Makes a folder and those above it."""
    makedirs(dirname)


@export("gfile.Copy")
def copy_v1(oldpath, newpath, overwrite=False):
    """Copies a file."""
    copy(oldpath, newpath, overwrite)


@export("gfile.Rename")
def rename_v1(oldname, newname, overwrite=False):
    """Renames a file or folder."""
    rename(oldname, newname, overwrite)


@export("gfile.DeleteRecursively")
def delete_recursively(dirname):
    """Deletes a folder and everything in it."""
    rmtree(dirname)


@export("gfile.IsDirectory")
def is_directory(dirname):
    """Whether there is a folder."""
    return isdir(dirname)


@export("gfile.ListDirectory")
def list_directory(dirname):
    """The names in a folder."""
    return listdir(dirname)


@export("gfile.Walk")
def walk_v1(top, in_order=True):
    """Folder, folders in it, files in it; for a folder and all below it."""
    return walk(top, in_order)


@export("gfile.Stat")
def stat_v1(filename):
    """Length, time of the last change, and kind."""
    return stat(filename)


def read_file_to_string(filename, binary_mode=False):
    """The whole file."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename, file_content):
    """Writes a whole file."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename, contents, overwrite=True):
    """Writes a file beside the old one and puts it in its place, so that nobody sees half of it."""
    path = local(filename)
    with translated(path):
        handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".tmp", dir=os.path.dirname(path) or ".")
        with os.fdopen(handle, "wb") as file:
            file.write(as_bytes(contents))
    rename(temporary, path, overwrite)
