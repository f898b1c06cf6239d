"""Records are counted without reading them, once for the same files."""

import json
import os

import pytest

from tpuloop.data import index
from tpuloop.data.checks import DataError
from tpuloop.data.index import counted


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The user's cache folder, where everything is worth keeping."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "_WORTH_KEEPING", -1.0)
    return tmp_path / "cache" / "tpuloop"


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_counts(files, compression):
    source = files.records([3, 0, 2000, 1], compression=compression)
    found = counted([f"{files.folder}/part-{n:03d}.tfrecord" for n in range(4)], compression=compression)
    assert [(file.records, file.examples, file.first) for file in found] == [(n, n, 0) for n in (3, 0, 2000, 1)]
    assert found[2] == source.files[1]


def test_counts_are_kept_until_a_file_changes(files, cache, monkeypatch, caplog):
    paths = [file.path for file in files.records([3, 5]).files]
    counted(paths)
    (kept,) = cache.iterdir()
    assert json.loads(kept.read_text()) == {"counts": [3, 5]}
    kept.write_text('{"counts": [3, 4]}')
    assert [file.records for file in counted(paths)] == [3, 4]  # Not counted again.
    assert [file.records for file in counted(paths[::-1])] == [5, 3]  # Others.
    for broken in (
        "",
        "{",
        "[]",
        '{"counts": [3]}',
        '{"counts": "ab"}',
        '{"counts": [3, null]}',
        '{"counts": [3, -1]}',
    ):
        kept.write_text(broken)
        assert [file.records for file in counted(paths)] == [3, 5], broken
    kept.write_text('{"counts": [3, 4]}')
    os.utime(paths[0], ns=(0, 12345))
    assert [file.records for file in counted(paths)] == [3, 5]
    files.written = 0
    files.records([4])
    assert [file.records for file in counted(paths)] == [4, 5]


def test_a_cache_that_cannot_be_written_is_said_and_done_without(files, cache, caplog, monkeypatch):
    caplog.set_level("INFO", "tpuloop")
    cache.parent.write_text("a file")
    monkeypatch.setattr(index, "_SAID_AFTER", 1)
    assert counted([files.records([3]).files[0].path])[0].records == 3
    assert caplog.messages[0] == "counting the records of 1 files, once"
    assert caplog.messages[1].startswith("the number of records is not kept for the next time: ")


def test_what_took_a_moment_is_not_kept(files, cache, monkeypatch):
    monkeypatch.setattr(index, "_WORTH_KEEPING", 60.0)
    counted([files.records([3]).files[0].path])
    assert not cache.exists()


def test_files_that_are_none(files, tmp_path, flip_byte):
    path = files.records([3]).files[0].path
    flip_byte(path, 1, "length")
    with pytest.raises(DataError, match="part-000.tfrecord, record 1 at byte 17: the checksum of its length is wrong"):
        counted([path])
    assert counted([path], damaged=True)[0].records == 2
    (tmp_path / "text").write_text("no records at all, but text")
    with pytest.raises(DataError, match="text, record 0 at byte 0: .*: make the file anew, or leave it out"):
        counted([str(tmp_path / "text")])
    with pytest.raises(DataError, match="text is not a TFRecord file with the compression GZIP: "):
        counted([str(tmp_path / "text")], compression="GZIP")
    with pytest.raises(DataError, match="gone cannot be read: "):
        counted([str(tmp_path / "gone")])
    zipped = files.records([500], compression="GZIP").files[0].path
    os.truncate(zipped, os.path.getsize(zipped) - 300)
    with pytest.raises(DataError, match="with the compression GZIP"):
        counted([zipped], compression="GZIP")
    assert 1 <= counted([zipped], compression="GZIP", damaged=True)[0].records < 500
