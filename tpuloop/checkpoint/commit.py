"""The commit protocol: a checkpoint counts once its COMMIT.json stands in its final folder, and not before.

```
checkpoints/step-00001200/
  state.index, state.data-*   a TensorFlow checkpoint
  COMMIT.json                 its step, the size and CRC32C of every file, and what the run wants to remember
```

All of it is written into a folder of another name first, and read back: `write_committed` says what is compared. Where
the file system can rename a folder in one step, that makes it visible; elsewhere (object stores) the files are written
in place and COMMIT.json comes last, and a checkpoint that is written a second time, as only a damaged one is, is gone
until then.
"""

import json
import os
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
    put_in_place,
    remove_ours,
    unfinished_folder,
)

_CHUNK = 1 << 22


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or used; the message names its folder and what is wrong with it."""


def committed_steps(directory: str) -> List[int]:
    """The steps with a commit file, ascending. Does not look whether they are intact."""
    if not tf.io.gfile.isdir(directory):
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
    in_place = "://" in directory
    folder = final if in_place else unfinished_folder(directory, step)
    clear_leftovers(directory)
    if in_place and tf.io.gfile.exists(folder):
        remove_ours(folder)
    tf.io.gfile.makedirs(folder)
    others = names_in(folder)
    try:
        write(folder)
        names = [name for name in names_in(folder) if name not in others]
        if not in_place:
            for name in names:
                to_disk(os.path.join(folder, name))
        files = {name: _describe(os.path.join(folder, name)) for name in names}
        if check is not None:
            check(folder)
        commit = {**record, "step": step, "files": files}
        _write_text(os.path.join(folder, COMMIT_FILE), _as_text(commit))
        if not in_place:
            to_disk(folder)
            put_in_place(folder, final)
            to_disk(directory)
    except BaseException:
        if tf.io.gfile.exists(folder) and not in_place:
            tf.io.gfile.rmtree(folder)
        raise
    return commit


def read_commit(directory: str, step: int) -> Dict[str, Any]:
    """The commit file of a step, after comparing every file with it.

    Raises:
      CheckpointError: where the commit file or a file it names is missing, cut off or changed.
    """
    folder = os.path.join(directory, folder_name(step))
    try:
        with tf.io.gfile.GFile(os.path.join(folder, COMMIT_FILE)) as file:
            commit = json.loads(file.read())
        expected = commit["files"].items()
        if commit["step"] != step or not expected:
            raise ValueError("it is of another step, or names no file")
    except (OSError, tf.errors.OpError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{folder}: its {COMMIT_FILE} cannot be read ({type(error).__name__})") from error
    for name, description in expected:
        try:
            found = _describe(os.path.join(folder, name))
        except (OSError, tf.errors.OpError) as error:
            raise CheckpointError(f"{folder}: {name} cannot be read ({type(error).__name__})") from error
        if found != description:
            raise CheckpointError(f"{folder}: {name} has {found}, and {description} was committed")
    return commit


def delete(directory: str, step: int) -> None:
    """Deletes a step's checkpoint; files that others put into its folder stay, and it is a checkpoint no more."""
    remove_ours(os.path.join(directory, folder_name(step)))


def _as_text(commit: Mapping[str, Any]) -> str:
    return json.dumps(commit, indent=1, sort_keys=True)


def _write_text(path: str, text: str) -> None:
    """Writes a commit file, to the disk where it is local, and reads it back.

    Raises:
      CheckpointError: where it reads otherwise.
    """
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)
    if "://" not in path:
        to_disk(path)
    with tf.io.gfile.GFile(path) as file:
        if file.read() != text:
            raise CheckpointError(f"{path} was read back and differs from what was written")


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
