"""Lines of a text file, and parts of it that several processes can read at once.

Files are UTF-8, with or without a byte-order mark, with line ends of any system that ends in a line feed. They are read
a piece at a time, however large they are.
"""

import dataclasses
from typing import Any, Iterator, List, Optional

from tpuloop.data.records.files import open_file, size_of
from tpuloop.errors import UsageError

LONGEST = 64 * 2**20

_PIECE = 2**20
_PROBE = 2**13
_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """A part of a file that begins and ends between two units, which are lines or documents.

    Attributes:
      path: of the file.
      start, stop: the first byte, and the one behind the last.
    """

    path: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Line:
    """Attributes:
    offset: of its first byte in the file.
    data: its bytes, without line end and byte-order mark.
    """

    offset: int
    data: bytes


def split_into_ranges(path: str, count: int, *, at_blank_lines: bool = False) -> List[ByteRange]:
    """Up to `count` ranges of about the same size, which hold every byte of the file once, in order.

    Args:
      path: of the file.
      count: how many at most; there are fewer where lines or documents are few.
      at_blank_lines: whether to cut only behind blank lines, else behind any line.

    Raises:
      UsageError: for a file that is empty or in another encoding that can be told by its first bytes.
      OSError: where it cannot be read.
    """
    size = checked_size(path)
    parts = [range_of(path, index, count, size=size, at_blank_lines=at_blank_lines) for index in range(count)]
    return [part for part in parts if part is not None]


def range_of(path: str, index: int, count: int, *, size: int, at_blank_lines: bool = False) -> Optional[ByteRange]:
    """One of these ranges by its number, found by a look at its two ends; None where it would be empty.

    Args:
      size: of the file, see `checked_size`.
    """
    with open_file(path) as file:
        start, stop = (
            _bound(file, path, size * number // count, size, at_blank_lines) for number in (index, index + 1)
        )
    return ByteRange(path, start, stop) if start < stop else None


def checked_size(path: str) -> int:
    """The bytes of a file.

    Raises:
      UsageError: for a file that is empty or in another encoding that can be told by its first bytes.
      OSError: where it cannot be read.
    """
    with open_file(path) as file:
        head = file.read(len(_MARK))
    size = size_of(path)
    if size == 0 or size == len(_MARK) and head == _MARK:
        raise UsageError(f"{path} is empty: there is no text in it")
    for mark, encoding in _OTHER_MARKS.items():
        if head.startswith(mark):
            raise UsageError(f"{path} is {encoding}: convert it to UTF-8 (iconv -f {encoding} -t UTF-8)")
    return size


def _bound(file: Any, path: str, offset: int, size: int, at_blank_lines: bool) -> int:
    """The first bound at or behind `offset`."""
    if offset in (0, size):
        return offset
    # From the byte before it, which is a line's end where `offset` itself begins a line.
    lines = _lines(file, path, offset - 1, size, piece=_PROBE)
    next(lines)
    may_cut = not at_blank_lines
    for line in lines:
        if may_cut:
            return line.offset
        may_cut = not line.data.strip()
    return size


def read_lines(part: ByteRange) -> Iterator[Line]:
    """The lines of a range, empty ones among them.

    Raises:
      UsageError: for a line of more than 64 MiB, which no text has.
      OSError: where the file cannot be read.
    """
    with open_file(part.path) as file:
        yield from _lines(file, part.path, part.start, part.stop, piece=_PIECE)


def _lines(file: Any, path: str, start: int, stop: int, *, piece: int) -> Iterator[Line]:
    file.seek(start)
    offset, rest, left = start, b"", stop - start
    while left > 0:
        data = file.read(min(piece, left))
        if not data:
            break  # It has been cut short meanwhile.
        left -= len(data)
        whole, end, begun = data.rpartition(b"\n")
        if not end:
            rest += data
            _check_length(rest, path, offset)
            continue
        for line in (rest + whole).split(b"\n"):
            yield _line(offset, line)
            offset += len(line) + 1
        rest = begun
    if rest:
        yield _line(offset, rest)


def _line(offset: int, data: bytes) -> Line:
    if offset == 0 and data.startswith(_MARK):
        data = data[len(_MARK) :]
    return Line(offset, data[:-1] if data.endswith(b"\r") else data)


def _check_length(data: bytes, path: str, offset: int) -> None:
    if len(data) > LONGEST:
        raise UsageError(
            f"{place(path, offset)}: longer than {LONGEST >> 20} MiB; text is read line by line, so break it into lines"
        )


def place(path: str, offset: int) -> str:
    """Where a byte is, for people: the file and the number of its line, from 1. Reads the file up to there."""
    number, left = 1, offset
    with open_file(path) as file:
        while left > 0:
            piece = file.read(min(_PIECE, left))
            if not piece:
                break
            number += piece.count(b"\n")
            left -= len(piece)
    return f"{path}, line {number}"


def decoded(line: Line, path: str) -> str:
    """The text of a line.

    Raises:
      UsageError: naming file, line and byte, where it is not UTF-8.
    """
    try:
        return line.data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line.data[error.start]
        raise UsageError(
            f"{place(path, line.offset)}: byte {error.start + 1} (0x{byte:02x}) is not UTF-8: convert the file "
            "(iconv -f LATIN1 -t UTF-8, if that is what it is)"
        ) from error
