"""The folders of steps: their names, putting a new one in the place of an old one, and deleting what is ours in one.

A folder is replaced by two renames: the old one aside, the new one in. A process that dies in between leaves the old
one under a hidden name, and the next one that trains puts it back. Files that others put into a step's folder are
never deleted.
"""

import json
import logging
import os
import re
import time
from typing import Callable, List, Set

import tensorflow as tf

from tpuloop.errors import first_line
from tpuloop.paths import is_folder, is_remote

logger = logging.getLogger("tpuloop")

COMMIT_FILE = "COMMIT.json"
PREFIX = "state"
STEP_FOLDER = re.compile(r"step-(\d{8,})$")

_UNFINISHED = re.compile(r"\.writing-step-\d{8,}-(\d+)$")
_REPLACED = re.compile(r"\.replaced-(step-\d{8,})-\d+$")
# Also without a commit file to name them: a write or a deletion may have ended halfway. The second line is what
# TensorFlow leaves of a save that did not end.
_OURS = re.compile(
    rf"({re.escape(COMMIT_FILE)}|{PREFIX}\.(index|data-\d+-of-\d+)"
    rf"|{PREFIX}\.(index|data-\d+-of-\d+)\.tempstate\d+|{PREFIX}_temp|rewrite-\d+)$"
)
_REWRITE = re.compile(r"rewrite-\d+$")


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
    """The files and folders in a folder, sorted, each once: a store may name a folder for each object in it."""
    return sorted({name.rstrip("/") for name in tf.io.gfile.listdir(folder)})


def put_in_place(fresh: str, final: str) -> None:
    """Renames a folder to `final`, in the place of the one that may be there.

    At every moment one of the two stands there or the old one can be put back. What others put into the old one is
    moved into the new one.
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
    warning_only(_retire, aside, final)


def remove_ours(folder: str) -> None:
    """Deletes our files in a step's folder, and the folder where nothing else is in it.

    The commit file goes first, so that a half-deleted checkpoint is not seen; a folder that stays is none any more.
    """
    ours = ours_in(folder)
    for name in sorted(ours, key=lambda name: name != COMMIT_FILE):
        remove(os.path.join(folder, name))
    # In an object store a folder may have gone with its last file.
    if tf.io.gfile.exists(folder) and not tf.io.gfile.listdir(folder):
        tf.io.gfile.rmtree(folder)


def remove(path: str) -> None:
    """Deletes a file, or a folder with all that is in it."""
    if is_folder(path):
        tf.io.gfile.rmtree(path)
    else:
        tf.io.gfile.remove(path)


def clear_leftovers(directory: str) -> None:
    """Puts right what a process that died while it wrote has left. Only for the one process that writes there.

    Raises:
      OSError, tf.errors.OpError: where the folder cannot be looked into.
    """
    if not is_folder(directory):
        return
    for name in names_in(directory):
        path = os.path.join(directory, name)
        if is_remote(directory):
            if STEP_FOLDER.match(name):
                warning_only(_clear_step, path)
            continue
        unfinished, replaced = _UNFINISHED.match(name), _REPLACED.match(name)
        if unfinished and not _is_another_process(int(unfinished.group(1))):
            warning_only(tf.io.gfile.rmtree, path)
        elif replaced:
            warning_only(_settle, path, os.path.join(directory, replaced.group(1)))


def _clear_step(folder: str) -> None:
    """In an object store: deletes what a save that did not end has left in a step's folder."""
    if not is_committed(folder):
        remove_ours(folder)
        return
    rewritten = [name for name in names_in(folder) if _REWRITE.match(name)]
    if rewritten:
        with tf.io.gfile.GFile(os.path.join(folder, COMMIT_FILE)) as file:
            used = json.loads(file.read()).get("folder")
        for name in rewritten:
            if name != used:
                remove(os.path.join(folder, name))


def _is_another_process(number: int) -> bool:
    """Whether a process of that number runs here, beside this one, and may still be writing."""
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # Somebody else's.
        pass
    return True


def _settle(aside: str, final: str) -> None:
    """Ends a replacement: where the new folder did not arrive, the old one comes back."""
    if not tf.io.gfile.exists(final) or is_committed(aside) and not is_committed(final):
        put_in_place(aside, final)
    else:
        _retire(aside, final)


def _retire(aside: str, final: str) -> None:
    """Deletes our files in a folder that was replaced, and moves those of others to `final`."""
    ours = ours_in(aside)
    for name in names_in(aside):
        target = os.path.join(final, name)
        if name not in ours and not tf.io.gfile.exists(target):
            tf.io.gfile.rename(os.path.join(aside, name), target)
    remove_ours(aside)


def ours_in(folder: str) -> Set[str]:
    """The names in a step's folder that we wrote: those in its commit file, and those that are always ours."""
    committed: Set[str] = set()
    try:
        if is_committed(folder):
            with tf.io.gfile.GFile(os.path.join(folder, COMMIT_FILE)) as file:
                committed = {name.partition("/")[0] for name in json.loads(file.read())["files"]}
    except (OSError, tf.errors.OpError, ValueError, KeyError, TypeError):
        pass  # Damaged: it names nothing.
    return {name for name in names_in(folder) if name in committed or _OURS.match(name)}


def warning_only(action: Callable[..., None], path: str, *others: str) -> None:
    """What cannot be cleared away takes space and does no other harm: no reason to end a run."""
    try:
        action(path, *others)
    except (OSError, tf.errors.OpError, ValueError) as error:
        logger.warning("cannot clear away %s: %s", path, first_line(error))
