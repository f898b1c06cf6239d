"""How files are compressed, by their first bytes."""

import gzip
import zlib

import pytest

from tpuloop.data.records.compression import GZIP, HEAD, PLAIN, ZLIB, compression_by
from tpuloop.data.records.framing import frame


@pytest.mark.parametrize("length", [5, 0x0178, 0x9C78, 0x8B1F], ids=hex)
def test_records_whose_length_begins_as_a_compressed_stream_does(length):
    data = frame(bytes(length))
    assert compression_by(data[:HEAD]) == PLAIN
    assert compression_by(gzip.compress(data)[:HEAD]) == GZIP
    for level in (1, 6, 9):
        assert compression_by(zlib.compress(data, level)[:HEAD]) == ZLIB


def test_short_and_other_files_are_not_compressed():
    assert [compression_by(head) for head in (b"", b"x", b"\x78", b"\x78\x02" + bytes(10))] == [PLAIN] * 4
