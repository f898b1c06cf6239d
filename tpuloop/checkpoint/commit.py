"""The commit protocol: a checkpoint counts once its COMMIT.json stands in its final folder, and not before.

```
checkpoints/step-00001200/
  state.index, state.data-*   a TensorFlow checkpoint
  COMMIT.json                 its step, the size and CRC32C of every file, and what the run wants to remember
```

All of it is written into a folder of another name first, and read back. Where the file system can rename a folder in
one step, that makes it visible; elsewhere (object stores) the files are written in place and COMMIT.json comes last,
and a checkpoint that is written a second time, as only a damaged one is, is gone until then.
"""

import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional

import google_crc32c
import tensorflow as tf

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
    directory: str, step: int, *, write: Callable[[str], None], record: Mapping[str, Any]
) -> Dict[str, Any]:
    """Writes a checkpoint and commits it.

    Args:
      directory: the folder of all checkpoints; made if it is missing.
      step: steps done.
      write: given a folder, writes the files into it.
      record: plain JSON to keep in the commit file.

    Returns:
      What the commit file holds.

    Raises:
      CheckpointError: where a file cannot be read back.
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
        files = {name: _describe(os.path.join(folder, name)) for name in names_in(folder) if name not in others}
        commit = {**record, "step": step, "files": files}
        with tf.io.gfile.GFile(os.path.join(folder, COMMIT_FILE), "w") as file:
            file.write(json.dumps(commit, indent=1, sort_keys=True))
        if not in_place:
            put_in_place(folder, final)
    except BaseException:
        if tf.io.gfile.exists(folder) and not in_place:
            tf.io.gfile.rmtree(folder)
        raise
    return commit


def amend(directory: str, step: int, *, record: Mapping[str, Any]) -> None:
    """Replaces what the run wanted to remember at a committed step, and leaves its files alone."""
    path = os.path.join(directory, folder_name(step), COMMIT_FILE)
    with tf.io.gfile.GFile(path) as file:
        commit = json.loads(file.read())
    text = json.dumps({**record, "step": step, "files": commit["files"]}, indent=1, sort_keys=True)
    fresh = path if "://" in directory else f"{path}.new"
    with tf.io.gfile.GFile(fresh, "w") as file:
        file.write(text)
    if fresh != path:
        tf.io.gfile.rename(fresh, path, overwrite=True)


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
