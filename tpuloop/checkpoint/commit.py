"""The commit protocol: a checkpoint counts once its COMMIT.json stands in its final folder, and not before.

```
checkpoints/step-00001200/
  state.index, state.data-*   a TensorFlow checkpoint
  COMMIT.json                 its step, the size and CRC32C of every file, and what the run wants to remember
```

All of it is written into a folder of another name first, and read back: `write_committed` says what is compared. Where
the file system can rename a folder in one step, that makes it visible; elsewhere (object stores) the files are written
in place and COMMIT.json comes last. There, a checkpoint that is written a second time has its new files in a folder
`rewrite-*` within its own, and becomes the new one when COMMIT.json, which a store replaces in one step, names them.
"""

import json
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

import google_crc32c
import tensorflow as tf

from tpuloop.checkpoint.durable import to_disk
from tpuloop.checkpoint.folders import (
    COMMIT_FILE,
    STEP_FOLDER,
    clear_leftovers,
    folder_name,
    is_committed,
    names_in,
    ours_in,
    put_in_place,
    remove,
    remove_ours,
    unfinished_folder,
    warning_only,
)
from tpuloop.errors import first_line
from tpuloop.paths import is_folder, is_remote
from tpuloop.retry import ONCE, Retry

_CHUNK = 1 << 22


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or used; the message names its folder and what is wrong with it."""


class Unreachable(CheckpointError):
    """A checkpoint in an object store that does not let us look: it may be whole."""


class _ReadOtherwise(CheckpointError):
    """What was read is not what was written."""


# What a store answers whose trouble is no trouble of the file that was asked for.
_NO_ANSWER = (
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnauthenticatedError,
    tf.errors.UnavailableError,
)


def committed_steps(directory: str) -> List[int]:
    """The steps with a commit file, ascending. Does not look whether they are intact.

    Raises:
      OSError, tf.errors.OpError: where it cannot be found out. A run that took that for none would start over.
    """
    if not is_folder(directory):
        return []
    steps = []
    for name in names_in(directory):
        match = STEP_FOLDER.match(name)
        if match and is_committed(os.path.join(directory, name)):
            steps.append(int(match.group(1)))
    return sorted(steps)


def write_committed(
    directory: str,
    step: int,
    *,
    write: Callable[[str], None],
    record: Mapping[str, Any],
    check: Optional[Callable[[str], None]] = None,
) -> Dict[str, Any]:
    """Writes a checkpoint, reads it back and commits it.

    Before it is committed, everything is on the disk where the file system is local, and has been read again, from
    the disk where the system lets go of its own copy. Three things are compared: the files with what was in memory, by
    `check`; the commit file with its text; and, when the checkpoint is used, every file with the size and CRC32C
    that was read here.

    Args:
      directory: the folder of all checkpoints; made if it is missing.
      step: steps done.
      write: given a folder, writes the files into it.
      record: plain JSON to keep in the commit file.
      check: given the folder, reads the files and raises CheckpointError where they do not hold what was to be written.

    Returns:
      What the commit file holds.

    Raises:
      CheckpointError: where a file cannot be read back or differs; nothing is committed then.
      OSError, tf.errors.OpError: where it cannot be written.
    """
    final = os.path.join(directory, folder_name(step))
    in_place = is_remote(directory)
    clear_leftovers(directory)
    part = f"rewrite-{time.time_ns()}" if in_place and is_committed(final) else ""
    place = os.path.join(final, part) if part else final
    folder = place if in_place else unfinished_folder(directory, step)
    outdated = ours_in(final) - {COMMIT_FILE} if part else set()
    if in_place and not part and tf.io.gfile.exists(folder):
        remove_ours(folder)
    tf.io.gfile.makedirs(folder)
    others = names_in(folder)
    try:
        write(folder)
        names = [name for name in names_in(folder) if name not in others]
        if not in_place:
            for name in names:
                to_disk(os.path.join(folder, name))
        files = {os.path.join(part, name): _describe(os.path.join(folder, name)) for name in names}
        if check is not None:
            _retry(directory).call(lambda: check(folder), on=(CheckpointError,))
        commit = {**record, "step": step, "files": files, **({"folder": part} if part else {})}
        _write_text(os.path.join(final if in_place else folder, COMMIT_FILE), _as_text(commit))
        if not in_place:
            to_disk(folder)
            put_in_place(folder, final)
            to_disk(directory)
    except BaseException:
        # In an object store, what a failed save leaves is no checkpoint, and the next one clears it away.
        if not in_place and tf.io.gfile.exists(folder):
            tf.io.gfile.rmtree(folder)
        raise
    for name in sorted(outdated):
        warning_only(remove, os.path.join(final, name))
    return commit


def read_commit(directory: str, step: int) -> Dict[str, Any]:
    """The commit file of a step, after comparing every file with it.

    Raises:
      Unreachable: where an object store does not let us look.
      CheckpointError: where the commit file or a file it names is missing, cut off or changed.
    """
    # An answer of a store may be cut off on its way, which looks like a file that is.
    return _retry(directory).call(lambda: _read_commit(directory, step), on=(_ReadOtherwise,))


def _read_commit(directory: str, step: int) -> Dict[str, Any]:
    folder = os.path.join(directory, folder_name(step))
    try:
        with tf.io.gfile.GFile(os.path.join(folder, COMMIT_FILE)) as file:
            commit = json.loads(file.read())
        expected = commit["files"].items()
        if commit["step"] != step or not expected:
            raise ValueError("it is of another step, or names no file")
    except (OSError, tf.errors.OpError, ValueError, KeyError, AttributeError, TypeError) as error:
        _check_reachable(folder, error)
        kind = _ReadOtherwise if isinstance(error, ValueError) else CheckpointError
        raise kind(f"{folder}: its {COMMIT_FILE} cannot be read ({type(error).__name__})") from error
    for name, description in expected:
        try:
            found = _describe(os.path.join(folder, name))
        except (OSError, tf.errors.OpError) as error:
            _check_reachable(folder, error)
            raise CheckpointError(f"{folder}: {name} cannot be read ({type(error).__name__})") from error
        if found != description:
            raise _ReadOtherwise(f"{folder}: {name} has {found}, and {description} was committed")
    return commit


def delete(directory: str, step: int) -> None:
    """Deletes a step's checkpoint; files that others put into its folder stay, and it is a checkpoint no more."""
    remove_ours(os.path.join(directory, folder_name(step)))


def _retry(directory: str) -> Retry:
    return Retry() if is_remote(directory) else ONCE


def _check_reachable(folder: str, error: Exception) -> None:
    if is_remote(folder) and isinstance(error, _NO_ANSWER):
        raise Unreachable(f"{folder} cannot be looked at: {first_line(error)}") from error


def _as_text(commit: Mapping[str, Any]) -> str:
    return json.dumps(commit, indent=1, sort_keys=True)


def _write_text(path: str, text: str) -> None:
    """Writes a commit file, to the disk where it is local, and reads it back.

    Raises:
      CheckpointError: where it reads otherwise.
    """
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)
    if not is_remote(path):
        to_disk(path)
    _retry(path).call(lambda: _check_text(path, text), on=(_ReadOtherwise,))


def _check_text(path: str, text: str) -> None:
    with tf.io.gfile.GFile(path) as file:
        if file.read() != text:
            raise _ReadOtherwise(f"{path} was read back and differs from what was written")


def _describe(path: str) -> Dict[str, Any]:
    """The size and CRC32C of a file, as read from the file system."""
    size, checksum = 0, 0
    with tf.io.gfile.GFile(path, "rb") as file:
        chunk: Optional[bytes] = file.read(_CHUNK)
        while chunk:
            size += len(chunk)
            checksum = google_crc32c.extend(checksum, chunk)
            chunk = file.read(_CHUNK)
    return {"size": size, "crc32c": f"{checksum:08x}"}
