"""TFRecord files as they are found, compressed or not."""

import contextlib
import gzip
import shutil
import tempfile
import zlib
from typing import Any, BinaryIO, Iterator

from tpuloop.data.convert.input_files import opened_input
from tpuloop.data.records.compression import GZIP, HEAD, compression_by
from tpuloop.errors import first_line

_CHUNK = 1 << 20


class BadStream(ValueError):
    """A compressed file cannot be unpacked; says why."""


def compression_of(path: str) -> str:
    """How a file is compressed, by its first bytes.

    Raises:
      UsageError: where it is missing or cannot be read.
    """
    with opened_input(path) as file:
        return compression_by(file.read(HEAD))


@contextlib.contextmanager
def records_of(path: str, compression: str) -> Iterator[Any]:
    """The file for `framing`: itself, or unpacked into a temporary file, so that memory stays flat.

    Raises:
      BadStream: where it cannot be unpacked.
    """
    with opened_input(path) as file:
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
