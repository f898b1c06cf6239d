"""Files by path, local ones with Python's own functions. TensorFlow is loaded only for a path such as gs://BUCKET."""

import os
import tempfile
from typing import Any, List

from tpuloop.errors import UsageError, first_line


def is_remote(path: str) -> bool:
    """Whether only TensorFlow's file systems can reach the path."""
    return "://" in path


def join(folder: str, name: str) -> str:
    """The path of a file in a folder."""
    return os.path.join(folder, name)


def open_file(path: str, mode: str = "rb") -> Any:
    """The file, opened for bytes ('rb', 'wb').

    Raises:
      OSError: where it cannot be opened. A remote file is opened at its first use.
      UsageError: where TensorFlow cannot.
    """
    if not is_remote(path):
        return open(path, mode)
    gfile, errors = _remote()
    try:
        file = gfile.GFile(path, mode)
        if "r" in mode:
            file.size()  # A missing file is missing now.
        return file
    except errors.OpError as error:
        raise UsageError(f"{path} cannot be opened: {first_line(error)}") from error


def read_file(path: str) -> bytes:
    """All bytes of a file.

    Raises:
      FileNotFoundError: where there is none.
    """
    if is_remote(path) and not exists(path):
        raise FileNotFoundError(path)
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
    return _remote()[0].exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Whether there is such a folder."""
    return _remote()[0].isdir(path) if is_remote(path) else os.path.isdir(path)


def make_folder(path: str) -> None:
    """Makes a folder and those above it, where they are missing."""
    if is_remote(path):
        _remote()[0].makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


def names_in(folder: str) -> List[str]:
    """The names in a folder, sorted; those of folders without a slash at their end."""
    names = _remote()[0].listdir(folder) if is_remote(folder) else os.listdir(folder)
    return sorted(name.rstrip("/") for name in names)


def size_of(path: str) -> int:
    """Bytes of a file."""
    return _remote()[0].stat(path).length if is_remote(path) else os.path.getsize(path)


def remove(path: str) -> None:
    """Deletes a file."""
    if is_remote(path):
        _remote()[0].remove(path)
    else:
        os.remove(path)


def _remote() -> Any:
    import tensorflow as tf

    return tf.io.gfile, tf.errors


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
