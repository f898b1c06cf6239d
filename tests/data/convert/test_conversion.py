"""From input to files: the same for any number of workers, and what a second run finds."""

import dataclasses
import json
import os

import google_crc32c
import numpy as np
import pytest

from tpuloop.data.convert.conversion import Layout
from tpuloop.data.convert.shard_writer import CannotWrite
from tpuloop.errors import UsageError


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{n},{n / 4},{n % 3}\n" for n in range(1000)))
    return path


def test_what_is_written_is_what_was_read(table, tmp_path, scan, convert, packed):
    manifest, said = convert(scan("csv", table, label="y"), tmp_path / "out", shards=3)
    assert said == ""
    shards = manifest.splits["train"]
    # 333, 333 and 334 rows, 64 in a record; a record has 16 bytes around 64 x 16.
    assert [(shard.file, shard.examples, shard.records) for shard in shards] == [
        ("train-00000-of-00003.tfrecord", 333, 6),
        ("train-00001-of-00003.tfrecord", 333, 6),
        ("train-00002-of-00003.tfrecord", 334, 6),
    ]
    assert [shard.bytes for shard in shards] == [333 * 16 + 6 * 16, 333 * 16 + 6 * 16, 334 * 16 + 6 * 16]
    for shard in shards:
        data = (tmp_path / "out" / shard.file).read_bytes()
        assert (len(data), google_crc32c.value(data)) == (shard.bytes, shard.crc32c)
    found = packed(tmp_path / "out")
    assert found["x"].tolist() == [[n, n / 4] for n in range(1000)]
    assert found["y"].tolist() == [n % 3 for n in range(1000)]
    assert sorted(os.listdir(tmp_path / "out")) == ["manifest.json", *(shard.file for shard in shards)]


def test_any_number_of_workers_writes_the_same(table, tmp_path, scan, convert, packed, contents_of):
    data = scan("csv", table, label="y")
    for workers in (1, 3):
        convert(data, tmp_path / str(workers), workers=workers, examples_per_shard=150, held_out=0.2, seed=3)
    one = contents_of(tmp_path / "1")
    assert one == contents_of(tmp_path / "3") and len(one) == 15
    train, test = packed(tmp_path / "1"), packed(tmp_path / "1", "test")
    rows = np.concatenate([train["x"][:, 0], test["x"][:, 0]]).astype(int)
    assert sorted(rows.tolist()) == list(range(1000)) and 150 < len(test["x"]) < 250
    assert (np.diff(train["x"][:, 0]) > 0).all()
    # The split of an example does not depend on the shards either.
    convert(data, tmp_path / "other", shards=1, held_out=0.2, seed=3, examples_per_record=10)
    np.testing.assert_array_equal(packed(tmp_path / "other", "test")["x"], test["x"])
    convert(data, tmp_path / "seed", shards=1, held_out=0.2, seed=4)
    assert packed(tmp_path / "seed", "test")["x"].tolist() != test["x"].tolist()


def test_bad_rows_are_counted_and_too_many_are_an_error(table, tmp_path, scan, convert, packed):
    lines = table.read_text().splitlines()
    for row in (10, 400, 401, 999):
        lines[row] = "x,1,1"
    table.write_text("\n".join(lines))
    data = scan("csv", table, label="y", on_bad="skip")
    manifest, said = convert(data, tmp_path / "out", shards=3, max_bad=4, workers=2)
    assert manifest.made["left_out"] == 4 and manifest.examples("train") == 996
    assert said.count("warning: left out: ") == 4 and "row 402, column 'a': 'x' is no number" in said
    with pytest.raises(UsageError, match="and 3 before it were left out, as many as --max_bad_records allows"):
        convert(data, tmp_path / "fewer", shards=3, max_bad=3)
    # Of several errors the first in the input is told, whichever worker is the first to find one.
    with pytest.raises(UsageError, match="row 11, column 'a'"):
        convert(data, tmp_path / "none", shards=1000, workers=3)
    assert not [name for name in os.listdir(tmp_path / "none") if name.endswith(".writing")]


def test_a_split_without_examples(table, tmp_path, scan, convert):
    table.write_text("a\n1\n2\n")
    with pytest.raises(UsageError, match="no example is left for the split 'test' of 2 rows: change --held_out"):
        convert(scan("csv", table), tmp_path / "out", held_out=0.01)


def test_an_unfinished_conversion_goes_on(table, tmp_path, scan, convert, contents_of, monkeypatch):
    """The second shard cannot get its name; then it can."""
    data, out = scan("csv", table, label="y"), tmp_path / "out"
    convert(data, tmp_path / "whole", shards=3)
    out.mkdir()
    blocked = out / "train-00001-of-00003.tfrecord"
    (blocked / "in the way").mkdir(parents=True)
    journal = out / ".conversion.jsonl"
    journal.touch()
    with pytest.raises(CannotWrite, match="train-00001-of-00003.tfrecord cannot be written: Is a directory"):
        convert(data, out, shards=3)
    assert len(journal.read_text().splitlines()) == 2
    (blocked / "in the way").rmdir()
    blocked.rmdir()
    # As after a kill: half a line in the journal, and a file that was not finished.
    journal.write_text(journal.read_text() + '{"index": 1, "sha')
    (out / ".train-00001-of-00003.tfrecord.77.writing").write_bytes(b"half")
    first = os.stat(out / "train-00000-of-00003.tfrecord")
    with pytest.raises(UsageError, match="differs .options.held_out was 0.0 and is 0.5.: use"):
        convert(data, out, shards=3, held_out=0.5)
    _, said = convert(data, out, shards=3)
    assert said == "going on: 1 of 3 shards are done\n"
    assert contents_of(out) == contents_of(tmp_path / "whole")
    assert os.stat(out / "train-00000-of-00003.tfrecord").st_mtime_ns == first.st_mtime_ns


def test_a_finished_shard_that_was_cut_is_written_anew(table, tmp_path, scan, convert, contents_of, monkeypatch):
    from tpuloop.data.records.manifest import Manifest

    data, out = scan("csv", table, label="y"), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            convert(data, out, shards=3)
    with open(out / "train-00002-of-00003.tfrecord", "r+b") as file:
        file.truncate(100)
    assert convert(data, out, shards=3)[1] == "going on: 2 of 3 shards are done\n"
    convert(data, tmp_path / "whole", shards=3)
    assert contents_of(out) == contents_of(tmp_path / "whole")


def test_changed_input_is_not_gone_on_with(table, tmp_path, scan, convert):
    out = tmp_path / "out"
    out.mkdir()
    (out / "train-00001-of-00003.tfrecord").mkdir()
    (out / ".conversion.jsonl").touch()
    with pytest.raises(CannotWrite):
        convert(scan("csv", table, label="y"), out, shards=3)
    with open(table, "a") as file:
        file.write("1,1,1\n")
    with pytest.raises(UsageError, match="unfinished conversion that differs .*input.files.0..bytes was"):
        convert(scan("csv", table, label="y"), out, shards=3)


def test_two_conversions_at_once(table, tmp_path, scan, convert):
    import fcntl

    (tmp_path / "out").mkdir()
    with open(tmp_path / "out" / ".conversion.jsonl", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another conversion is at work in"):
            convert(scan("csv", table, label="y"), tmp_path / "out")


@pytest.mark.parametrize(
    "layout, message",
    [
        ({"held_out": 1.0}, "held_out must be at least 0 and below 1; it is 1.0"),
        ({"held_out": -0.1}, "held_out must be"),
        ({"shards": 0}, "shards must be at least 1"),
        ({"examples_per_record": 0}, "examples_per_record must be at least 1"),
        ({"seed": -1}, "seed must be an integer from 0"),
    ],
)
def test_layouts_that_cannot_be(layout, message):
    with pytest.raises(UsageError, match=message):
        Layout(**layout)


def test_how_it_was_made(table, tmp_path, scan, convert):
    manifest, _ = convert(scan("csv", table, label="y"), tmp_path / "out", shards=2, held_out=0.25, seed=9)
    made = json.loads((tmp_path / "out" / "manifest.json").read_text())["made"]
    assert made["options"] == {"shards": 2, "examples_per_record": 64, "held_out": 0.25, "seed": 9}
    assert made["input"]["files"][0]["bytes"] == table.stat().st_size
    assert made["columns"] == {"x": ["a", "b"], "y": ["y"]}
    assert dataclasses.asdict(manifest)["label"] == "y"
