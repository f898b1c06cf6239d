"""Rows that hold nothing but plain numbers, which is most of what there is, parsed by NumPy at once."""

import warnings
from typing import Optional

import numpy as np

from tpuloop.data.convert.csv_rows import Block

_DIGITS = b"0123456789+-"
_OF_FRACTIONS = b".eE"
_COMMA = ord(",")
_SURE_DIGITS = 18  # Of which any fit 64 bits.


def plain_table(block: Block, *, width: int, delimiter: str) -> Optional[np.ndarray]:
    """The values of a block, int64 or float64 [n, width]; None where they must be looked at more closely.

    It answers only where every field is a number without quotes, blanks or words such as nan, and then as Python's
    `int` and `float` would.
    """
    data = block.data
    if delimiter not in ",;\t|" or data.count(b"\r") != data.count(b"\r\n"):
        return None
    others = data.translate(None, _DIGITS + b"\r\n" + delimiter.encode())
    whole = not others
    if others.translate(None, _OF_FRACTIONS):
        return None
    marks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(delimiter))
    if (np.diff(np.searchsorted(marks, block.ends), prepend=0) != width - 1).any():
        return None
    flat = data.translate(bytes.maketrans(b"\n" + delimiter.encode(), b",,"), b"\r")
    if whole and np.diff(np.flatnonzero(np.frombuffer(flat, np.uint8) == _COMMA), prepend=-1).max() > _SURE_DIGITS + 1:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = np.fromstring(flat, np.int64 if whole else np.float64, sep=",")
        except (DeprecationWarning, ValueError):  # It stops at what is no number.
            return None
    return values.reshape([-1, width]) if len(values) == len(block.ends) * width else None
