"""Pictures of examples as a PNG file."""

from typing import Any, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.images.sheet import contact_sheet
from tpuloop.data.records.files import write_atomically
from tpuloop.errors import UsageError


def write_sheet(path: str, pictures: Sequence[Tuple[Any, int]]) -> int:
    """Writes the pictures, JPEG or PNG bytes or uint8 arrays, each with a number above it; returns how many.

    Those that cannot be decoded are left out.

    Raises:
      UsageError: where none can be decoded, or the file cannot be written.
    """
    images: List[np.ndarray] = []
    numbers: List[int] = []
    for picture, number in pictures:
        if isinstance(picture, bytes):
            try:
                picture = tf.io.decode_image(picture, channels=3, expand_animations=False).numpy()
            except tf.errors.InvalidArgumentError:
                continue
        images.append(picture)
        numbers.append(number)
    if not images:
        raise UsageError(f"--sheet={path}: none of the {len(pictures)} pictures can be decoded")
    try:
        write_atomically(path, contact_sheet(images, numbers=numbers))
    except OSError as error:
        raise UsageError(f"--sheet={path} cannot be written: {error.strerror or error}") from error
    return len(images)
