"""A folder of pictures that has a subfolder for each class."""

import dataclasses
import os
from typing import Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tpuloop import gcs_plugin, paths
from tpuloop.data.checks import DataError
from tpuloop.errors import first_line

EXTENSIONS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """The pictures of a folder, by class and then by name.

    Attributes:
      files: the path of each picture.
      labels: the number of each one's class, an index of `classes`.
      classes: the names of the subfolders, sorted.
      notes: what a user may want to know, a line each: classes without pictures, files that are none.
    """

    files: Tuple[str, ...]
    labels: Tuple[int, ...]
    classes: Tuple[str, ...]
    notes: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.files) != len(self.labels):
            raise ValueError(f"{len(self.files)} files have {len(self.labels)} labels")
        if self.labels and not 0 <= min(self.labels) <= max(self.labels) < len(self.classes):
            raise ValueError(f"labels from {min(self.labels)} to {max(self.labels)} for {len(self.classes)} classes")


def list_image_folder(path: str, *, classes: Optional[Sequence[str]] = None) -> ImageFolder:
    """Lists `path`/CLASS/PICTURE, where a picture ends in .jpg, .jpeg, .png, .gif or .bmp. Nothing is read.

    What begins with a dot is left out, and so are folders in a class's folder.

    Args:
      path: of any file system that TensorFlow knows, such as gs://.
      classes: the names by their numbers, where another folder has set them; None sorts the subfolders.

    Raises:
      DataError: where there is no such folder, no class or no picture, saying what was found; or a class that is not
        among `classes`.
    """
    gcs_plugin.avoid_faults(os.environ)
    entries = _listed(path)
    found = [name for name, known in entries.items() if known or _is_folder(path, name)]
    if not found:
        raise DataError(
            f"{path} has no subfolders, and must have one with the pictures of each class; {_has(list(entries))}"
        )
    if classes is None:
        classes = sorted(found)
    unknown = sorted(set(found) - set(classes))
    if unknown:
        raise DataError(
            f"{path} has a folder {unknown[0]!r}, which is not among the {len(classes)} classes to train on "
            f"({', '.join(list(classes)[:5])}{', ...' if len(classes) > 5 else ''})"
        )
    known_folders = set(found)
    files: List[str] = []
    labels: List[int] = []
    empty, others = [], []
    for label, name in enumerate(classes):
        inside = _listed(paths.join(path, name)) if name in known_folders else {}
        pictures = [file for file in inside if file.lower().endswith(EXTENSIONS)]
        taken = set(pictures)
        files += [paths.join(path, name, file) for file in pictures]
        labels += [label] * len(pictures)
        others += [f"{name}/{file}" for file in inside if file not in taken]
        if not pictures:
            empty.append(name)
    if not files:
        raise DataError(
            f"{path} holds no pictures ({', '.join(EXTENSIONS)}) in its {len(found)} subfolders; {_has(others)}"
        )
    return ImageFolder(files=tuple(files), labels=tuple(labels), classes=tuple(classes), notes=_notes(empty, others))


def _listed(path: str) -> Dict[str, bool]:
    """The sorted names in a folder, without hidden ones; with True for what is known to be a folder."""
    try:
        names = tf.io.gfile.listdir(path)
    except tf.errors.NotFoundError as error:
        raise DataError(f"there is no folder {path}") from error
    except tf.errors.OpError as error:
        raise DataError(f"{path} cannot be listed: {first_line(error)}") from error
    # Object stores end the names of folders with a slash.
    entries = {name.rstrip("/"): name.endswith("/") for name in names}
    return {name: entries[name] for name in sorted(entries) if name and not name.startswith(".")}


def _is_folder(path: str, name: str) -> bool:
    # Not asked of what the name tells, since that takes long on an object store.
    return not name.lower().endswith(EXTENSIONS) and tf.io.gfile.isdir(paths.join(path, name))


def _has(names: Sequence[str]) -> str:
    if not names:
        return "it is empty"
    return f"it has {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def _notes(empty: Sequence[str], others: Sequence[str]) -> Tuple[str, ...]:
    notes = []
    if empty:
        notes.append(f"{len(empty)} classes have no pictures, such as {empty[0]!r}: their numbers stay unused")
    if others:
        notes.append(f"{len(others)} entries are no pictures and left out, such as {others[0]}")
    return tuple(notes)
