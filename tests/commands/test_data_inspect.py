"""`tpuloop data inspect`: what is found, what is wrong with it, and the exit status."""

import gzip
import os
import zlib

import numpy as np
import pytest

from tpuloop.commands.data.features import Features, shown
from tpuloop.commands.data.inspection import CONVERTED, RECORDS, Inspection, grouped
from tpuloop.commands.data.verify import ToVerify, verified, verify_file
from tpuloop.data.records import example
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Feature, Manifest, ShardFile
from tpuloop.data.records.packing import pack


def crc32c(data):
    import google_crc32c

    return google_crc32c.value(data)


def write(path, records):
    path.write_bytes(b"".join(map(frame, records)))
    return path


def examples(count, *, first_label=0):
    return [example.encode({"x": np.arange(3.0) + i, "label": first_label + i % 4}) for i in range(count)]


@pytest.fixture
def packed(tmp_path):
    """A converted folder of 10 examples in two files of four examples a record."""
    shards = []
    for index, numbers in enumerate((range(6), range(6, 10))):
        records = []
        for start in range(numbers.start, numbers.stop, 4):
            some = np.arange(start, min(start + 4, numbers.stop))
            x = np.tile(some[:, None, None].astype(np.float32), [1, 2, 2])
            records.append(pack({"x": x, "label": (some % 3).astype(np.int64)}))
        path = write(tmp_path / f"train-{index:05d}.tfrecord", records)
        data = path.read_bytes()
        shards.append(ShardFile(path.name, len(records), len(numbers), len(data), crc32c(data)))
    features = (Feature("x", "float32", (2, 2)), Feature("label", "int64"))
    classes = ("a", "b", "c")
    Manifest(features, "packed", 4, {"train": tuple(shards)}, label="label", classes=classes).save(str(tmp_path))
    return tmp_path


def spoil(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def inspect(*paths, keep=3, look_at=1000):
    (group,) = grouped([str(path) for path in paths])
    return Inspection(group, look_at=look_at, keep=keep)


def test_converted_folder(packed, quick_tpuloop):
    result = quick_tpuloop("data", "inspect", packed, "--verify", "--examples=1")
    assert result.status == 0, result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == f"{packed}: converted, 4 examples a record"
    # Each example has 24 bytes, and each of the three records 16 more.
    assert lines[1:3] == ["train: 10 examples in 2 files, 288 bytes", "label: label, 3 classes: a, b, c"]
    assert "x float32 [2, 2] all 0 to 9" in lines
    assert "label int64 [] all 0 to 2" in lines
    assert lines[lines.index("example 0") + 1 :][:2] == ["x: 0 0 0 0", "label: 0"]
    assert lines[-1] == "verified: 3 records, every checksum is right"
    assert "TROUBLE" not in result.out


def test_label_beyond_the_classes_of_the_manifest(packed):
    manifest = Manifest.load(str(packed))
    Manifest(manifest.features, "packed", 4, manifest.splits, label="label", classes=("a", "b")).save(str(packed))
    lines = inspect(packed).lines(examples=0)
    assert lines[-1] == "  TROUBLE label has the label 2, out of range for 2 classes, 0 to 1"


def test_every_damage_is_a_line_with_file_record_and_reason(packed, quick_tpuloop):
    first, second = (packed / f"train-{index:05d}.tfrecord" for index in (0, 1))
    spoil(first, 12)  # The first byte of record 0.
    spoil(second, 8)  # The checksum of the length of record 0.
    result = quick_tpuloop("data", "inspect", packed, "--verify")
    assert result.status == 1
    damaged = [line.strip() for line in result.out.splitlines() if "DAMAGED" in line]
    begin = "record 0 at byte 0"
    for path, reason in (
        (first, f"{begin}: the checksum of its data is wrong"),
        (first, "the CRC32C of the file is not the one in the manifest"),
        (second, f"{begin}: the checksum of its length is wrong, so that nothing after it can be found"),
    ):
        assert damaged.count(f"DAMAGED {path}, {reason}") == 1
    assert "verified" not in result.out
    assert "Traceback" not in result.out + result.err


def test_missing_and_shortened_files_are_seen_without_verify(packed, quick_tpuloop):
    os.remove(packed / "train-00000.tfrecord")
    second = packed / "train-00001.tfrecord"
    second.write_bytes(second.read_bytes()[:-1])
    result = quick_tpuloop("data", "inspect", packed)
    assert result.status == 1
    assert f"{packed / 'train-00000.tfrecord'}, it is missing, and the manifest lists it" in result.out
    assert f"{second}, it has 111 bytes, and the manifest says 112" in result.out
    assert "record 0 at byte 0: the file ends inside it" in result.out


def test_counts_that_differ_from_the_manifest(packed):
    manifest = Manifest.load(str(packed))
    path = packed / "train-00001.tfrecord"
    shard = manifest.splits["train"][1]
    wrong = ShardFile(shard.file, 1, 5, shard.bytes, shard.crc32c)
    assert verify_file(ToVerify(str(path), wrong, 24)).faults == ("it has 4 examples, and the manifest says 5",)
    wrong = ShardFile(shard.file, 2, 4, shard.bytes, shard.crc32c)
    assert verify_file(ToVerify(str(path), wrong, 24)).faults == ("it has 1 records, and the manifest says 2",)
    assert verify_file(ToVerify(str(path), shard, 7)).faults[0] == (
        "record 0: 96 bytes are no whole number of examples"
    )


def test_faults_of_a_file_are_counted_beyond_a_hundred(tmp_path):
    path = write(tmp_path / "a.tfrecord", [b"x"] * 130)
    data = bytearray(path.read_bytes())
    for record in range(120):
        data[17 * record + 12] ^= 1  # A frame has 16 bytes and the data.
    path.write_bytes(bytes(data))
    result = verify_file(ToVerify(str(path)))
    assert (result.records, len(result.faults), result.more) == (10, 100, 20)
    assert result.faults[99].startswith("record 99 at byte 1683")


def test_files_are_verified_in_order_by_several_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("tpuloop.commands.data.verify._FEW_BYTES", 0)
    parts = [ToVerify(str(write(tmp_path / f"{count}", [b"x"] * count))) for count in (3, 1, 2)]
    assert [result.records for result in verified(parts, processes=2)] == [3, 1, 2]


@pytest.mark.parametrize(
    ("compress", "named"), [(gzip.compress, "GZIP-compressed"), (zlib.compress, "ZLIB-compressed")]
)
def test_compressed_records(tmp_path, compress, named):
    path = tmp_path / "a.tfrecord.z"
    whole = compress(b"".join(map(frame, examples(5))))
    path.write_bytes(whole)
    inspection = inspect(path)
    assert inspection.verify(processes=1) == [] and inspection.verified_records == 5
    first = inspection.lines(examples=0)[0]
    assert "1 TFRecord file, 5 records" in first and first.endswith(named)
    path.write_bytes(whole[:-9])
    ((_, reasons),) = inspect(path).faults
    assert reasons[0].startswith(f"it cannot be read: the {named.split('-')[0]} stream is damaged")


def test_examples_one_a_record(tmp_path, quick_tpuloop):
    records = examples(6, first_label=1)
    records[2] = example.encode({"x": np.arange(2.0), "label": 2})
    records[4] = example.encode({"x": np.array([np.nan, 0.0, 0.0])})
    write(tmp_path / "a.tfrecord", records)
    result = quick_tpuloop("data", "inspect", tmp_path / "*.tfrecord", "--examples=1")
    assert result.status == 0, result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "x float32 [2 to 3] all 0 to 7" in lines
    assert "label int64 [1] 5 of 6 1 to 4" in lines
    assert [line for line in lines if "TROUBLE" in line] == [
        "TROUBLE label is missing in 1 of 6 examples",
        "TROUBLE label begins at 1 and not at 0: subtract 1, or make the model that much wider",
        "TROUBLE x differs in shape: [3] in record 0 of a.tfrecord, [2] in record 2 of a.tfrecord: pad it, or parse it "
        "as ragged",
        "TROUBLE x holds NaN or infinity in 1 examples, first in record 4 of a.tfrecord",
    ]


def test_no_more_examples_are_looked_into_than_asked(tmp_path):
    write(tmp_path / "a.tfrecord", examples(50))
    lines = inspect(tmp_path / "a.tfrecord", look_at=7).lines(examples=0)
    assert "50 records" in lines[0] and lines[1] == "  looked into 7 examples"


def test_packed_records_without_manifest(packed):
    os.remove(packed / "manifest.json")
    inspection = inspect(packed)
    assert grouped([str(packed)])[0].kind == RECORDS
    assert "all of 96 bytes: packed ones perhaps, whose manifest.json is missing" in inspection.lines(examples=1)[1]


def test_a_record_among_others_that_is_no_example(tmp_path):
    path = write(tmp_path / "a.tfrecord", [*examples(2), b"\xff\xff"])
    assert inspect(path).faults == [(str(path), ["record 2: it is no tf.train.Example"])]


def test_float64_mixed_dtypes_and_strings():
    features = Features(keep=0)
    features.add({"a": np.array([1.0]), "b": np.array([1], np.int64), "s": [b"hello"]}, where="record 0")
    features.add({"a": np.array([2.0]), "b": np.array([1], np.float32), "s": [b"you"]}, where="record 1")
    assert features.troubles() == [
        "a is float64: models compute in float32, which takes half the bytes (data convert stores it)",
        "b is float32 in some and int64 in others",
        "s holds strings, which no accelerator takes: decode or tokenize them in the pipeline",
    ]


def test_labels_below_zero():
    features = Features(keep=0)
    features.add_rows({"y": np.array([-1, 0, 1])}, where="here")
    assert features.troubles() == ["y has labels down to -1: classes count from 0"]


def test_what_is_shown_of_a_value():
    assert shown(np.arange(13)) == "0 1 2 3 4 5 6 7 8 9 10 11 ... (13 values)"
    assert shown(np.array([0.5, 2.0])) == "0.5 2"
    assert shown([b"caf\xc3\xa9"]) == "'café'"
    assert shown([b"\x00\x01\x02"]) == "3 bytes, 00 01 02"
    assert shown([b"a"] * 4) == "'a', 'a', 'a', ..."


def test_csv(tmp_path, quick_tpuloop):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfheight,name,label\n1.5,ann,0\n,bob,1\n2.5,cyd\n\xff,x,1\n")
    result = quick_tpuloop("data", "inspect", path)
    assert result.status == 1
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == f"{path}: CSV file, 3 rows of 3 columns, 52 bytes"
    assert "height float32 [] 1 of 2 1.5" in lines
    assert "TROUBLE height is missing in 1 of 2 examples" in lines
    assert f"DAMAGED {path}, line 4: 2 fields, and the header has 3" in lines
    assert f"DAMAGED {path}, line 5: not UTF-8 at byte 0" in lines


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "hi", "label": 1}\n{"text": "you", "label": 0}\nnot\n[1]\n')
    inspection = inspect(path)
    assert inspection.lines(examples=0)[0].startswith(f"{path}: JSON lines, 4 objects")
    ((_, reasons),) = inspection.faults
    assert reasons[0].startswith("line 3: no JSON") and reasons[1] == "line 4: a list and no object"


def test_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros([4, 2]), y=np.arange(4))
    lines = inspect(path).lines(examples=0)
    assert "NumPy archive: x float64 [4, 2]; y int64 [4]" in lines[0]
    assert any("x is float64" in line for line in lines)
    np.savez(path, x=np.zeros([4, 2]), y=np.arange(3))
    ((_, reasons),) = inspect(path).faults
    assert reasons == ["the arrays differ in their first dimension, the examples: x [4, 2], y [3]"]
    path.write_bytes(path.read_bytes()[:50])
    ((_, reasons),) = inspect(path).faults
    assert reasons[0].startswith("it is damaged")


def test_folder_of_pictures_and_its_sheet(tmp_path, quick_tpuloop):
    import tensorflow as tf

    for name in ("cat", "dog"):
        (tmp_path / "in" / name).mkdir(parents=True)
        for number in range(2):
            picture = tf.io.encode_jpeg(np.full([10, 20, 3], 50 * number, np.uint8)).numpy()
            (tmp_path / "in" / name / f"{number}.jpg").write_bytes(picture)
    bad = tmp_path / "in" / "dog" / "1.jpg"
    bad.write_bytes(bad.read_bytes()[:-2])
    result = quick_tpuloop("data", "inspect", tmp_path / "in", f"--sheet={tmp_path / 'sheet.png'}", "--examples=1")
    assert result.status == 1
    assert "a folder of 4 pictures in 2 classes" in result.out and "cat 2, dog 2" in result.out
    assert "image: JPEG of 20 x 10, RGB" in result.out
    assert f"DAMAGED {bad}, the JPEG file ends too early" in result.out
    assert "wrote 3 pictures" in result.out
    assert tf.io.decode_png((tmp_path / "sheet.png").read_bytes()).shape[-1] == 3


def test_sheet_of_arrays(packed, quick_tpuloop):
    result = quick_tpuloop("data", "inspect", packed, f"--sheet={packed / 'sheet.png'}")
    assert result.status == 0 and "wrote 10 pictures" in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name what to inspect: tpuloop data inspect PATH..."),
        (["nowhere.tfrecord"], "nowhere.tfrecord"),
        (["empty"], "empty holds neither manifest.json nor TFRecord files nor a folder of pictures"),
        (["a.tfrecord", "--sheet=x.png"], "--sheet=x.png: the examples hold no pictures"),
        (["a.tfrecord", "--verfy"], "did you mean 'verify'?"),
        (["a.tfrecord", "--look_at=0"], "look_at"),
    ],
)
def test_wrong_use_is_told_in_one_line(tmp_path, quick_tpuloop, arguments, said):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.tfrecord", examples(1))
    result = quick_tpuloop("data", "inspect", *arguments, cwd=tmp_path)
    assert result.status == 2
    assert said in result.err and len(result.err.splitlines()) == 1


def test_a_file_of_anything_else(tmp_path, quick_tpuloop):
    (tmp_path / "a").write_text("this is no file of records, but some text")
    (tmp_path / "b").write_bytes(b"")
    result = quick_tpuloop("data", "inspect", tmp_path / "a", tmp_path / "b")
    assert result.status == 1
    assert f"DAMAGED {tmp_path / 'a'}, record 0 at byte 0: the checksum of its length is wrong" in result.out


@pytest.mark.parametrize("command", ["data inspect", "data bench", "bench input"])
def test_help_is_quick_and_loads_no_tensorflow(command):
    import subprocess
    import sys

    code = (
        "import sys; from tpuloop.__main__ import main; status = main(sys.argv[1:]); "
        "assert 'tensorflow' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command.split(), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--debug" in done.stdout


def test_kinds_of_paths(packed):
    assert [group.kind for group in grouped([str(packed)])] == [CONVERTED]
