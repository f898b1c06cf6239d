"""Existing TFRecord files: packed, or written on as they are."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.records.example import NoExample, decode, encode
from tpuloop.data.records.framing import frame
from tpuloop.errors import UsageError


def serialized(**features):
    """An example as TensorFlow writes it."""
    kinds = {
        bytes: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v)),
        float: lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v)),
        int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
    }
    made = {name: kinds[type(values[0])](values) for name, values in features.items() if values}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString(deterministic=True)


@pytest.fixture
def save(tmp_path):
    """`save(records)`: the path of a file that TensorFlow wrote."""

    def write(records, name="t.tfrecord"):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for record in records:
                writer.write(record)
        return tmp_path / name

    return write


def plain(count, start=0):
    return [serialized(ids=[n, -n], share=[n / 8], id=[n]) for n in range(start, start + count)]


def test_examples_are_those_of_tensorflow():
    given = {"b": [b"", b"\xff"], "f": np.array([0.5, -1], np.float32), "i": np.array([2**62, -1])}
    data = encode(given)
    assert data == serialized(b=[b"", b"\xff"], f=[0.5, -1.0], i=[2**62, -1])
    found = decode(data)
    assert found["b"] == [b"", b"\xff"] and found["i"].tolist() == [2**62, -1] and found["f"].tolist() == [0.5, -1]
    for record in (b"", b"no example", b"\xff\xff\xff"):
        with pytest.raises(NoExample):
            decode(record)


def test_numbers_of_fixed_shapes_are_packed(save, scan, read):
    data = scan("tfrecord", save(plain(1500), "a.tfrecord"), save(plain(700, 1500), "b.tfrecord"), label="id")
    contents = data.contents
    assert contents.kind == "packed" and contents.label == "id" and contents.units == 2200
    assert [(f.name, f.dtype, f.shape) for f in contents.features] == [
        ("id", "int64", ()),
        ("ids", "int64", (2,)),
        ("share", "float32", ()),
    ]
    for start, stop in [(0, 2200), (1024, 1025), (1490, 1510), (2199, 2200)]:
        numbers, columns = read(data, start, stop)
        assert numbers == list(range(start, stop)) == columns["id"].tolist()
        assert columns["ids"].tolist() == [[n, -n] for n in numbers]
        assert columns["share"].tolist() == [n / 8 for n in numbers]


def test_other_examples_are_written_on_byte_by_byte(save, scan, read, convert, tmp_path):
    records = [serialized(text=[b"x"] * (n % 3), ids=list(range(n % 4)), id=[n]) for n in range(300)]
    data = scan("tfrecord", save(records))
    assert [(f.name, f.dtype, f.shape) for f in data.contents.features] == [
        ("id", "int64", ()),
        ("ids", "int64", (None,)),
        ("text", "bytes", (None,)),
    ]
    assert data.contents.kind == "examples" and read(data)[1] == records
    manifest, _ = convert(data, tmp_path / "out", shards=2)
    assert manifest.examples_per_record == 1
    files = [str(tmp_path / "out" / shard.file) for shard in manifest.splits["train"]]
    assert [record.numpy() for record in tf.data.TFRecordDataset(files)] == records
    assert read(scan("tfrecord", *files, drop=["text"]))[1][5] == serialized(ids=[0], id=[5])
    assert scan("tfrecord", *files, drop=["text", "ids"]).contents.kind == "packed"


BAD = {
    "missing": (serialized(ids=[1, 2], id=[1]), "record 2: the feature 'share' is missing"),
    "another shape": (serialized(ids=[1], id=[1], share=[1.0]), "record 2: the feature 'ids' has 1 values, and .* 2"),
    "another type": (serialized(ids=[1, 2], id=[1.0], share=[1.0]), "record 2: the feature 'id' is float32, and in"),
    "no example": (b"{}", "record 2: it is no tf.train.Example"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_records_are_named(save, scan, read, name, monkeypatch):
    record, message = BAD[name]
    monkeypatch.setattr("tpuloop.data.convert.tfrecord_input._SAMPLE", 2)
    path = save([*plain(2), record, *plain(2)])
    bad = []
    numbers, columns = read(scan("tfrecord", path), bad=bad)
    assert numbers == [0, 1, 3, 4] and columns["id"].tolist() == [0, 1, 0, 1]
    (text,) = bad
    with pytest.raises(UsageError, match=f"^{path}, {message}"):
        raise UsageError(text)


def test_damage_is_named_and_left_out(save, scan, read):
    path = save(plain(6, start=1))
    whole = path.read_bytes()
    size = len(whole) // 6
    damaged = bytearray(whole)
    for record in (1, 2, 5):
        damaged[record * size + 20] ^= 1
    path.write_bytes(damaged)
    bad = []
    numbers, columns = read(scan("tfrecord", path), bad=bad)
    assert numbers == [0, 3, 4] and columns["id"].tolist() == [1, 4, 5]
    assert [text.split(": ")[0] for text in bad] == [f"{path}, record {n} at byte {n * size}" for n in (1, 2, 5)]
    for start, stop, rest in [(0, 2, [0]), (2, 4, [3]), (1, 3, []), (4, 6, [4])]:
        bad = []
        assert read(scan("tfrecord", path), start, stop, bad=bad)[0] == rest and len(bad) == stop - start - len(rest)


def test_a_file_that_ends_too_early(save, scan, read):
    path = save(plain(3))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UsageError, match="record 2 at byte .*: the file ends inside it: mend it, or leave such"):
        scan("tfrecord", path)
    bad = []
    numbers, _ = read(scan("tfrecord", path, on_bad="skip"), bad=bad)
    assert numbers == [0, 1] and len(bad) == 1 and "record 2" in bad[0]


def test_files_of_something_else(save, scan, tmp_path):
    path = tmp_path / "t.tfrecord"
    for content, message in [
        (b"", "holds no records"),
        (b"some text that is long enough", "is no TFRecord file"),
        (b"\x1f\x8b" + bytes(30), "is compressed: decompress it first"),
        (frame(b"text"), "record 0: it is no tf.train.Example"),
    ]:
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            scan("tfrecord", path)
    good = save(plain(2))
    with pytest.raises(UsageError, match="--label=idz: there is no such feature; did you mean 'id'"):
        scan("tfrecord", good, label="idz")
    with pytest.raises(UsageError, match="--drop=z: there is no such feature"):
        scan("tfrecord", good, drop=["z"])
    with pytest.raises(UsageError, match="the feature 'id' is int64 in some records and float32 in others"):
        scan("tfrecord", save([serialized(id=[1]), serialized(id=[1.0])]))
