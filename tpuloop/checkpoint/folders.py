"""The folders of steps: their names, putting a new one in the place of an old one, and deleting one.

A folder is replaced by two renames: the old one aside, the new one in. A process that dies in between leaves the old
one under a hidden name, and the next one that trains puts it back.
"""

import logging
import os
import re
import time
from typing import Callable, List

import tensorflow as tf

logger = logging.getLogger("tpuloop")

COMMIT_FILE = "COMMIT.json"
PREFIX = "state"
STEP_FOLDER = re.compile(r"step-(\d{8,})$")

_UNFINISHED = re.compile(r"\.writing-step-\d{8,}-\d+$")
_REPLACED = re.compile(r"\.replaced-(step-\d{8,})-\d+$")


def folder_name(step: int) -> str:
    """The name of a step's folder, which sorts like the step."""
    return f"step-{step:08d}"


def unfinished_folder(directory: str, step: int) -> str:
    """Where this process writes a step's files before they are committed."""
    return os.path.join(directory, f".writing-{folder_name(step)}-{os.getpid()}")


def is_committed(folder: str) -> bool:
    """Whether the folder has a commit file."""
    return bool(tf.io.gfile.exists(os.path.join(folder, COMMIT_FILE)))


def names_in(folder: str) -> List[str]:
    """The files and folders in a folder, sorted."""
    return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))


def put_in_place(fresh: str, final: str) -> None:
    """Renames a folder to `final`, in the place of the one that may be there.

    At every moment one of the two stands there or the old one can be put back.
    """
    if not tf.io.gfile.exists(final):
        tf.io.gfile.rename(fresh, final)
        return
    directory, name = os.path.split(final)
    aside = os.path.join(directory, f".replaced-{name}-{time.time_ns()}")
    tf.io.gfile.rename(final, aside)
    try:
        tf.io.gfile.rename(fresh, final)
    except BaseException:
        if not tf.io.gfile.exists(final):
            tf.io.gfile.rename(aside, final)
        raise
    _or_warn(remove, aside)


def remove(folder: str) -> None:
    """Deletes a step's folder, its commit file first, so that a half-deleted checkpoint is not seen."""
    if is_committed(folder):
        tf.io.gfile.remove(os.path.join(folder, COMMIT_FILE))
    tf.io.gfile.rmtree(folder)


def clear_leftovers(directory: str) -> None:
    """Puts right what a process that died while it wrote has left. Only for the one process that writes there."""
    if not tf.io.gfile.isdir(directory):
        return
    for name in names_in(directory):
        path = os.path.join(directory, name)
        replaced = _REPLACED.match(name)
        if _UNFINISHED.match(name):
            _or_warn(tf.io.gfile.rmtree, path)
        elif replaced:
            _or_warn(_settle, path, os.path.join(directory, replaced.group(1)))


def _settle(aside: str, final: str) -> None:
    """Ends a replacement: where the new folder did not arrive, the old one comes back."""
    if not tf.io.gfile.exists(final) or is_committed(aside) and not is_committed(final):
        put_in_place(aside, final)
    else:
        remove(aside)


def _or_warn(action: Callable[..., None], path: str, *others: str) -> None:
    """What cannot be cleared away takes space and does no other harm: no reason to end a run."""
    try:
        action(path, *others)
    except (OSError, tf.errors.OpError) as error:
        logger.warning("cannot clear away %s: %s", path, str(error).splitlines()[0])
