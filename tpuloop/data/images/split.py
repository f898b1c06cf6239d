"""What is held out of files that nobody has split."""

import hashlib
from typing import Optional, Sequence, Tuple

from tpuloop.data.checks import DataError
from tpuloop.data.images.folder import ImageFolder


def split_by_hash(folder: ImageFolder, *, held_out: float) -> Tuple[ImageFolder, Optional[ImageFolder]]:
    """Two parts of a folder: what stays, and about a share of `held_out`; None where that is nothing.

    Raises:
      DataError: where nothing stays.
    """
    held = [_hashed(file) < held_out for file in folder.files]
    if all(held):
        raise DataError(f"nothing is left to train on of {len(held)} pictures with held_out={held_out}: give more")
    return _part(folder, [not one for one in held]), _part(folder, held) if any(held) else None


def _hashed(file: str) -> float:
    """A number from 0 to 1, below 1, of the last two parts of a path."""
    name = "/".join(file.replace("\\", "/").split("/")[-2:])
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big") / 2**48


def _part(folder: ImageFolder, kept: Sequence[bool]) -> ImageFolder:
    pairs = [pair for pair, keep in zip(zip(folder.files, folder.labels), kept) if keep]
    files, labels = zip(*pairs)
    return ImageFolder(files=files, labels=labels, classes=folder.classes, notes=folder.notes)
