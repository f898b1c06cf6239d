"""Many pictures in one, to be looked at."""

from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

# Digits of 3 x 5 points; a row is three bits, read from the left.
_DIGITS = (
    (7, 5, 5, 5, 7),
    (2, 6, 2, 2, 7),
    (7, 1, 7, 4, 7),
    (7, 1, 7, 1, 7),
    (5, 5, 7, 1, 1),
    (7, 4, 7, 1, 7),
    (7, 4, 7, 5, 7),
    (7, 1, 1, 1, 1),
    (7, 5, 7, 5, 7),
    (7, 5, 7, 1, 7),
)
_POINT = 2  # Pixels a point of a digit.
_MARGIN = 4  # Pixels between pictures.
_CAPTION = 5 * _POINT + _MARGIN
_PAPER, _INK = 255, 0


def contact_sheet(
    images: Sequence[np.ndarray], *, columns: int = 8, numbers: Optional[Sequence[int]] = None, side: int = 128
) -> bytes:
    """A PNG of pictures in rows, with a number above each.

    Args:
      images: uint8 of shape [height, width, 1 or 3] or [height, width]; sizes may differ.
      columns: pictures in a row.
      numbers: what is written above them, such as labels, at least 0; None numbers them from 0.
      side: pixels of a picture's longer side on the sheet. Smaller ones are enlarged by a whole factor, so that their
        pixels stay visible; larger ones are reduced.

    Raises:
      ValueError: for no pictures, another shape or dtype, or numbers that do not fit.
    """
    if not images:
        raise ValueError("there are no pictures to put on a sheet")
    if columns < 1 or side < 1:
        raise ValueError(f"columns and side must be at least 1; they are {columns} and {side}")
    numbers = list(range(len(images))) if numbers is None else list(numbers)
    if len(numbers) != len(images) or min(numbers) < 0:
        raise ValueError(f"{len(images)} pictures need a number of at least 0 each; there are {numbers}")
    cells = [_cell(image, number=number, side=side) for image, number in zip(images, numbers)]
    height = max(cell.shape[0] for cell in cells) + _MARGIN
    width = max(cell.shape[1] for cell in cells) + _MARGIN
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    sheet = np.full([rows * height + _MARGIN, columns * width + _MARGIN, 3], _PAPER, np.uint8)
    for index, cell in enumerate(cells):
        top = index // columns * height + _MARGIN
        left = index % columns * width + _MARGIN
        sheet[top : top + cell.shape[0], left : left + cell.shape[1]] = cell
    return tf.io.encode_png(sheet).numpy()


def _cell(image: np.ndarray, *, number: int, side: int) -> np.ndarray:
    """One picture under its number; uint8 of shape [height, width, 3]."""
    picture = _scaled(_coloured(image), side=side)
    digits = _drawn(number)
    cell = np.full([_CAPTION + picture.shape[0], max(picture.shape[1], digits.shape[1]), 3], _PAPER, np.uint8)
    cell[: digits.shape[0], : digits.shape[1]] = digits[..., np.newaxis]
    cell[_CAPTION:, : picture.shape[1]] = picture
    return cell


def _coloured(image: np.ndarray) -> np.ndarray:
    image = np.asarray(image)
    if image.ndim == 2:
        image = image[..., np.newaxis]
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3) or 0 in image.shape:
        raise ValueError(f"a picture must be uint8 of [height, width, 1 or 3]; it is {image.dtype} of {image.shape}")
    return np.broadcast_to(image, [*image.shape[:2], 3])


def _scaled(image: np.ndarray, *, side: int) -> np.ndarray:
    longer = max(image.shape[:2])
    if longer <= side:
        return image.repeat(side // longer, axis=0).repeat(side // longer, axis=1)
    size = [max(1, round(length * side / longer)) for length in image.shape[:2]]
    smaller = tf.image.resize(image, size, method=tf.image.ResizeMethod.AREA)
    return np.rint(smaller.numpy()).astype(np.uint8)


def _drawn(number: int) -> np.ndarray:
    """Its digits; uint8 of shape [height, width]."""
    points = []
    for digit in str(number):
        rows = np.array(_DIGITS[int(digit)])
        points += [(rows[:, np.newaxis] >> np.array([2, 1, 0])) & 1, np.zeros([5, 1], int)]
    drawn = np.concatenate(points[:-1], axis=1).repeat(_POINT, axis=0).repeat(_POINT, axis=1)
    return np.where(drawn, _INK, _PAPER).astype(np.uint8)
