"""Sources over what `tpuloop data convert` wrote, here written by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.converted import converted_source, features_and_label, record_files
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Feature, Manifest, ShardFile
from tpuloop.data.records.packing import DTYPES, pack
from tpuloop.errors import UsageError


def write(folder, shards, **manifest):
    """Writes files of (records, examples) and their manifest."""
    splits = {}
    for split, files in shards.items():
        names = [f"{split}-{number}" for number in range(len(files))]
        for name, (records, _) in zip(names, files):
            (folder / name).write_bytes(b"".join(map(frame, records)))
        splits[split] = tuple(
            ShardFile(name, len(records), examples, (folder / name).stat().st_size, 0)
            for name, (records, examples) in zip(names, files)
        )
    manifest = Manifest(splits=splits, **manifest)
    manifest.save(str(folder))
    return manifest


def test_every_dtype_packed(tmp_path):
    features = tuple(Feature(dtype, dtype, (2,)) for dtype in DTYPES)
    columns = {dtype: (np.arange(10).reshape([5, 2]) - 3).astype(dtype) for dtype in DTYPES}
    rows = [{name: values[part] for name, values in columns.items()} for part in (slice(0, 3), slice(3, 5))]
    manifest = write(
        tmp_path, {"train": [([pack(row) for row in rows], 5)]}, features=features, kind="packed", examples_per_record=3
    )
    source = converted_source(str(tmp_path), shuffle=False)
    assert isinstance(source, PackedSource) and source.size == 5
    assert source.element_spec == {dtype: tf.TensorSpec([2], dtype) for dtype in DTYPES}
    (batch,) = source.one_pass(batch_size=5)
    for dtype in DTYPES:
        np.testing.assert_array_equal(batch[dtype], columns[dtype])
        assert batch[dtype].dtype == dtype
    (batch,) = source.batches(batch_size=5, seed=0).take(1)
    np.testing.assert_array_equal(batch["float64"], columns["float64"])
    assert converted_source(str(tmp_path), manifest=manifest).size == 5


def example(text, weight, ids):
    features = {
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])),
        "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[weight])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[len(ids)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


FEATURES = (
    Feature("text", "bytes"),
    Feature("weight", "float16"),
    Feature("ids", "int32", (None,)),
    Feature("label", "int8"),
)


def test_examples(tmp_path):
    records = [example(b"a", 0.5, [7]), example(b"b", 1.5, [8, 9, 10])]
    manifest = write(
        tmp_path, {"train": [(records, 2)], "test": [(records[:1], 1), ([], 0)]},
        features=FEATURES, kind="examples", examples_per_record=1, label="label",
    )  # fmt: skip
    (batch,) = converted_source(str(tmp_path)).one_pass(batch_size=2)
    assert batch["text"].numpy().tolist() == [b"a", b"b"] and batch["ids"].to_list() == [[7], [8, 9, 10]]
    assert batch["weight"].dtype == tf.float16 and batch["weight"].numpy().tolist() == [0.5, 1.5]
    assert batch["label"].dtype == tf.int8 and batch["ids"].dtype == tf.int32
    assert converted_source(str(tmp_path), split="test").size == 1
    x, y = features_and_label(manifest)(batch)
    assert set(x) == {"text", "weight", "ids"} and y is batch["label"]
    two = dataclasses.replace(manifest, features=FEATURES[2:])
    assert features_and_label(two)(batch)[0] is batch["ids"]
    assert features_and_label(dataclasses.replace(manifest, label=None)) is None
    assert [file.path for file in record_files(str(tmp_path), manifest, "test")] == [
        str(tmp_path / "test-0"),
        str(tmp_path / "test-1"),
    ]


def test_what_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="holds no manifest.json: make it with tpuloop data convert"):
        converted_source(str(tmp_path))
    packed = {"features": (Feature("a", "int8"),), "kind": "packed", "examples_per_record": 4}
    write(tmp_path, {"train": [([b"1234"], 4)], "empty": [([], 0)]}, **packed)
    with pytest.raises(DataError, match="has no split 'test': it has train, empty"):
        converted_source(str(tmp_path), split="test")
    with pytest.raises(DataError, match="the data is empty: its files hold no examples"):
        converted_source(str(tmp_path), split="empty")
    (tmp_path / "train-0").write_bytes(frame(b"123"))
    with pytest.raises(UsageError, match="train-0 has 19 bytes, and manifest.json says 20: convert the data anew"):
        converted_source(str(tmp_path))
