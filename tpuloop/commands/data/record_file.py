"""TFRecord files as they are found, compressed or not."""

import contextlib
import gzip
import shutil
import tempfile
import zlib
from typing import Any, BinaryIO, Iterator

from tpuloop.data.records import files
from tpuloop.errors import UsageError, first_line

PLAIN, GZIP, ZLIB = "", "GZIP", "ZLIB"

_CHUNK = 1 << 20


class BadStream(ValueError):
    """A compressed file cannot be unpacked; says why."""


def compression_of(path: str) -> str:
    """How a file is compressed, by its first bytes."""
    with opened(path) as file:
        head = file.read(2)
    if head == b"\x1f\x8b":
        return GZIP
    # ZLIB's header is a multiple of 31; the low byte of a record's length is rarely that of a deflate stream.
    if len(head) == 2 and head[0] == 0x78 and int.from_bytes(head, "big") % 31 == 0:
        return ZLIB
    return PLAIN


@contextlib.contextmanager
def records_of(path: str, compression: str) -> Iterator[Any]:
    """The file for `framing`: itself, or unpacked into a temporary file, so that memory stays flat.

    Raises:
      BadStream: where it cannot be unpacked.
    """
    with opened(path) as file:
        if not compression:
            yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            try:
                if compression == GZIP:
                    with gzip.GzipFile(fileobj=file) as stream:
                        shutil.copyfileobj(stream, unpacked, _CHUNK)
                else:
                    _inflate(file, unpacked)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise BadStream(f"the {compression} stream is damaged: {first_line(error)}") from error
            unpacked.seek(0)
            yield unpacked


def opened(path: str) -> Any:
    """The file.

    Raises:
      UsageError: where it is missing or cannot be read.
    """
    try:
        return files.open_file(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _inflate(file: BinaryIO, out: BinaryIO) -> None:
    stream = zlib.decompressobj()
    while True:
        chunk = file.read(_CHUNK)
        if not chunk:
            break
        out.write(stream.decompress(chunk))
    out.write(stream.flush())
    if not stream.eof:
        raise EOFError("it ends too early")
