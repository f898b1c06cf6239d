"""Lines and byte ranges: every line once, whatever the ranges."""

import tracemalloc

import numpy as np
import pytest

from tpuloop.data.text import lines
from tpuloop.data.text.lines import ByteRange, decoded, place, read_lines, split_into_ranges
from tpuloop.errors import UsageError


@pytest.fixture
def write(tmp_path):
    def write(data, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def all_lines(path, count, **options):
    return [line for part in split_into_ranges(path, count, **options) for line in read_lines(part)]


def test_lines_by_hand(write):
    path = write(b"\xef\xbb\xbfone\r\n\ntwo\n three")
    (part,) = split_into_ranges(path, 1)
    assert part == ByteRange(path, 0, 19)
    assert [(line.offset, line.data) for line in read_lines(part)] == [
        (0, b"one"),
        (8, b""),
        (9, b"two"),
        (13, b" three"),
    ]
    assert [place(path, offset) for offset in (0, 8, 9, 13)] == [f"{path}, line {n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("piece", [1, 2, 7, 64, 2**20])
def test_ranges_hold_every_line_once(write, monkeypatch, piece):
    monkeypatch.setattr(lines, "_PIECE", piece)
    monkeypatch.setattr(lines, "_PROBE", piece)
    random = np.random.default_rng(piece)
    for data in [b"a", b"\n", b"a\n", b"\n\n\nb", *(bytes(random.choice(list(b"ab \r\n"), 60)) for _ in range(20))]:
        path = write(data)
        expected = [line[:-1] if line.endswith(b"\r") else line for line in data.split(b"\n")]
        if expected[-1] == b"":
            expected.pop()
        for count in range(1, 9):
            ranges = split_into_ranges(path, count)
            assert len(ranges) <= count
            assert ranges[0].start == 0 and ranges[-1].stop == len(data)
            assert [part.stop for part in ranges[:-1]] == [part.start for part in ranges[1:]]
            assert all(part.start < part.stop for part in ranges)
            assert all(data[part.start - 1 : part.start] in (b"", b"\n") for part in ranges)
            assert [line.data for line in all_lines(path, count)] == expected


def test_ranges_between_documents(write):
    random = np.random.default_rng(0)
    for _ in range(30):
        data = bytes(random.choice(list(b"ab \n\n"), 80))
        path = write(data)
        for count in range(1, 9):
            ranges = split_into_ranges(path, count, at_blank_lines=True)
            for part in ranges[1:]:
                assert data[: part.start].endswith(b"\n") and not data[: part.start].split(b"\n")[-2].strip()
            assert b"".join(data[part.start : part.stop] for part in ranges) == data
    # As even as documents allow, which are of 13 bytes.
    path = write(b"abc def\nghi\n\n" * 1000)
    sizes = [part.stop - part.start for part in split_into_ranges(path, 4, at_blank_lines=True)]
    assert len(sizes) == 4 and max(sizes) - min(sizes) <= 2 * 13
    assert len(split_into_ranges(write(b"a\nb\nc\nd"), 4, at_blank_lines=True)) == 1


def test_ranges_are_as_even_as_lines_allow(write):
    for count in (2, 4, 8):
        ranges = split_into_ranges(write(b"abc\n" * 8), count)
        assert [part.stop - part.start for part in ranges] == [32 // count] * count


def test_memory_is_flat(write, monkeypatch):
    monkeypatch.setattr(lines, "_PIECE", 2**16)
    path = write(b"some words of a line of text\n" * 100_000)
    tracemalloc.start()
    count = sum(len(line.data) == 28 for part in split_into_ranges(path, 3) for line in read_lines(part))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 2**20  # Of a file of 2.9 MB.


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", "text.txt is empty: there is no text in it"),
        (b"\xef\xbb\xbf", "text.txt is empty: there is no text in it"),
        ("\ufeffa text".encode("utf-16-le"), "text.txt is UTF-16: convert it to UTF-8"),
        ("\ufeffa text".encode("utf-16-be"), "text.txt is UTF-16: convert it to UTF-8"),
    ],
)
def test_files_without_text(write, data, expected):
    with pytest.raises(UsageError, match=expected):
        split_into_ranges(write(data), 2)


def test_a_line_without_end(write, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 2**20)
    path = write(b"short\n" + b"x" * 3 * 2**20)
    with pytest.raises(UsageError, match="text.txt, line 2: longer than 1 MiB; .* break it into lines"):
        list(read_lines(split_into_ranges(path, 1)[0]))


def test_bytes_that_are_not_utf_8(write):
    path = write("gut\nschön\n".encode() + "schön\n".encode("latin-1"))
    (part,) = split_into_ranges(path, 1)
    good, better, bad = read_lines(part)
    assert [decoded(line, path) for line in (good, better)] == ["gut", "schön"]
    with pytest.raises(UsageError, match=r"text.txt, line 3: byte 4 \(0xf6\) is not UTF-8: convert the file"):
        decoded(bad, path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        split_into_ranges(str(tmp_path / "missing"), 2)
    with pytest.raises(FileNotFoundError):
        split_into_ranges(f"file://{tmp_path / 'missing'}", 2)


def test_files_that_only_tensorflow_reaches(write):
    path = write(b"\xef\xbb\xbfone\r\n\ntwo\n three\n" * 50)
    remote = f"file://{path}"
    expected = [line.data for line in read_lines(ByteRange(path, 0, 1000))]
    assert [line.data for line in all_lines(remote, 7)] == expected
    assert place(remote, 20) == f"{remote}, line 5"
