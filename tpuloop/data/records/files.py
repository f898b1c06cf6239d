"""Files by path, local ones with Python's own functions. TensorFlow is loaded only for a path such as gs://BUCKET."""

import contextlib
import errno
import os
import tempfile
from typing import Any, Iterator, List

from tpuloop import gcs_plugin
from tpuloop.errors import first_line
from tpuloop.paths import is_remote, normalised


def open_file(path: str, mode: str = "rb") -> Any:
    """The file, opened for bytes ('rb', 'wb').

    Raises:
      OSError: where it cannot be opened; and later where it cannot be read or written, a remote one as well.
    """
    return _RemoteFile(normalised(path), mode) if is_remote(path) else open(path, mode)


def read_file(path: str) -> bytes:
    """All bytes of a file.

    Raises:
      FileNotFoundError: where there is none.
      OSError: where it cannot be read.
    """
    with open_file(path) as file:
        return file.read()


def write_atomically(path: str, data: bytes) -> None:
    """Writes a whole file that survives a power cut, or leaves what was there.

    Raises:
      OSError: where it cannot be written.
    """
    if is_remote(path):
        # An object store shows an object when it is complete.
        with open_file(path, "wb") as remote:
            remote.write(data)
        return
    folder, name = os.path.split(path)
    number, unfinished = tempfile.mkstemp(prefix=f".{name}.", suffix=".writing", dir=folder or ".")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o666 & ~_umask())
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    sync_folder(folder or ".")


def sync_folder(folder: str) -> None:
    """Makes the names in a local folder survive a power cut."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def exists(path: str) -> bool:
    """Whether there is such a file or folder."""
    return _remote("exists", path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Whether there is such a folder."""
    return _remote("isdir", path) if is_remote(path) else os.path.isdir(path)


def make_folder(path: str) -> None:
    """Makes a folder and those above it, where they are missing."""
    if is_remote(path):
        _remote("makedirs", path)
    else:
        os.makedirs(path, exist_ok=True)


def names_in(folder: str) -> List[str]:
    """The names in a folder, sorted; those of folders without a slash at their end."""
    names = _remote("listdir", folder) if is_remote(folder) else os.listdir(folder)
    return sorted(name.rstrip("/") for name in names)


def files_below(folder: str) -> List[str]:
    """The paths of all files in a folder and its subfolders from there, sorted folder by folder, without hidden ones.

    Raises:
      OSError: where a remote folder cannot be listed.
    """
    walked = _remote("walk", folder) if is_remote(folder) else os.walk(folder)
    found = []
    with _as_os_errors(folder) if is_remote(folder) else contextlib.nullcontext():
        for place, folders, names in walked:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            relative = os.path.relpath(place, folder) if not is_remote(folder) else place[len(normalised(folder)) :]
            prefix = "" if relative in (".", "", "/") else f"{relative.strip('/')}/"
            found += [f"{prefix}{name}" for name in sorted(names) if not name.startswith(".")]
    return found


def size_of(path: str) -> int:
    """Bytes of a file."""
    return _remote("stat", path).length if is_remote(path) else os.path.getsize(path)


def remove(path: str) -> None:
    """Deletes a file."""
    if is_remote(path):
        _remote("remove", path)
    else:
        os.remove(path)


class _RemoteFile:
    """A file of TensorFlow's whose errors are those of Python's."""

    def __init__(self, path: str, mode: str):
        self._path = path
        self._file = _gfile().GFile(path, mode)
        if mode == "rb":
            self._call("size")  # A missing file is missing now, not at the first read.

    def __enter__(self) -> "_RemoteFile":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        return self._call("read", size)

    def write(self, data: bytes) -> None:
        self._call("write", data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._call("seek", offset, whence)
        return self.tell()

    def tell(self) -> int:
        return self._call("tell")

    def flush(self) -> None:
        self._call("flush")

    def close(self) -> None:
        self._call("close")

    def seekable(self) -> bool:
        return True

    def _call(self, name: str, *arguments: Any) -> Any:
        with _as_os_errors(self._path):
            return getattr(self._file, name)(*arguments)


def _remote(name: str, path: str) -> Any:
    """A function of TensorFlow's on a path."""
    with _as_os_errors(path):
        return getattr(_gfile(), name)(normalised(path))


@contextlib.contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, first_line(error), path) from error
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, first_line(error), path) from error


def _gfile() -> Any:
    gcs_plugin.avoid_faults(os.environ)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import tensorflow as tf

    return tf.io.gfile


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
