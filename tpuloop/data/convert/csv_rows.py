"""Where the rows of a CSV file end, found in its bytes; quotes are minded as Python's csv module does."""

import dataclasses
from typing import BinaryIO, Iterator

import numpy as np

from tpuloop.errors import UsageError

MAX_ROW_BYTES = 16 << 20

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_PIECE_BYTES = 256 << 10  # More makes so many strings at once that they leave the caches.


class RowEnds:
    """Finds row ends piece by piece, from the start of a row on.

    A quote opens a quoted field only where the field begins, as in Python's csv module; in it, two quotes are one.

    Args:
      delimiter: one byte.
    """

    def __init__(self, *, delimiter: bytes):
        self._before_opening = (delimiter[0], _NEWLINE, _RETURN)
        self.in_quotes = False
        self._last = _NEWLINE  # The byte before the next piece: a row begins.
        self._closed_last = False  # That byte is a quote which closed a field.

    def feed(self, piece: bytes) -> np.ndarray:
        """The offsets in `piece` behind each row that ends in it: int64 [n]."""
        values = np.frombuffer(piece, np.uint8)
        ends = np.flatnonzero(values == _NEWLINE) + 1
        if self.in_quotes or b'"' in piece:
            quotes = np.flatnonzero(values == _QUOTE)
            inside = self._toggle(values, quotes)
            if inside is None:
                quotes = self._true_quotes(piece)
                inside = self.in_quotes
            # A newline ends a row where the quotes before it are as many as it takes to be outside.
            ends = ends[(np.searchsorted(quotes, ends) + inside) % 2 == 0]
            self.in_quotes = bool((len(quotes) + inside) % 2)
            self._closed_last = not self.in_quotes and len(quotes) > 0 and int(quotes[-1]) == len(piece) - 1
        else:
            self._closed_last = False
        if piece:
            self._last = piece[-1]
        return ends

    def _toggle(self, values: np.ndarray, quotes: np.ndarray):
        """Whether the piece begins inside, if each of its quotes opens or closes; None where one is a plain character.

        So it is in nearly every file: then nothing needs to be looked at one by one.
        """
        opening = quotes[int(self.in_quotes) :: 2]
        if len(opening) and opening[0] == 0:
            if not (self._closed_last or self._last in self._before_opening):
                return None
            opening = opening[1:]
        before = values[opening - 1]
        # A quote right behind one that closes makes one character of both, and the field goes on.
        if np.isin(before, (*self._before_opening, _QUOTE)).all():
            return self.in_quotes
        return None

    def _true_quotes(self, piece: bytes) -> np.ndarray:
        """Offsets of the quotes that open or close a field, one after the other."""
        true = []
        inside, closed_at = self.in_quotes, -1 if self._closed_last else -2
        at = piece.find(b'"')
        while at >= 0:
            before = piece[at - 1] if at else self._last
            if inside:
                true.append(at)
                inside, closed_at = False, at
            elif closed_at == at - 1 or before in self._before_opening:
                true.append(at)
                inside = True
            at = piece.find(b'"', at + 1)
        return np.array(true, np.int64)


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole rows.

    Attributes:
      offset: of its first byte in the file.
      data: the rows' bytes.
      ends: int64 [n], the offset in `data` behind each row.
    """

    offset: int
    data: bytes
    ends: np.ndarray

    def row(self, index: int) -> bytes:
        """The bytes of one row, its line end included."""
        start = int(self.ends[index - 1]) if index else 0
        return self.data[start : int(self.ends[index])]


def read_blocks(file: BinaryIO, *, path: str, delimiter: bytes, offset: int, first_row: int) -> Iterator[Block]:
    """The rows from a row's start to the end of the file, a few hundred kilobytes at a time.

    Args:
      file: to read.
      path: its name, for errors.
      delimiter: between fields, one byte.
      offset: at which a row begins.
      first_row: the number of that row, for errors.

    Raises:
      UsageError: for a row longer than MAX_ROW_BYTES, and for a quote that is never closed.
    """
    file.seek(offset)
    finder = RowEnds(delimiter=delimiter)
    carried, row = [], first_row
    carried_bytes = 0
    while True:
        piece = file.read(_PIECE_BYTES)
        if not piece:
            break
        ends = finder.feed(piece)
        if not len(ends):
            carried.append(piece)
            carried_bytes += len(piece)
            if carried_bytes > MAX_ROW_BYTES:
                raise UsageError(
                    f"{path}, row {row}: it is longer than {MAX_ROW_BYTES >> 20} MiB: is a quote in it never closed?"
                )
            continue
        last = int(ends[-1])
        data = b"".join((*carried, piece[:last]))
        yield Block(offset, data, ends + carried_bytes)
        offset += len(data)
        row += len(ends)
        carried, carried_bytes = [piece[last:]], len(piece) - last
    rest = b"".join(carried)
    if finder.in_quotes:
        raise UsageError(f"{path}, row {row}: a quote in it is never closed: close it, or double it where it is text")
    if rest:
        yield Block(offset, rest, np.array([len(rest)]))
