"""Converted folders as data sets."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Feature, Manifest, ShardFile
from tpuloop.data.records.packing import pack
from tpuloop.data.sets.converted import records


def write(folder, splits, features, columns, **more):
    shards = {}
    for split, count in splits.items():
        parts = [columns(range(start, min(start + 4, count))) for start in range(0, count, 4)]
        (folder / split).write_bytes(b"".join(frame(pack(part)) for part in parts))
        shards[split] = (ShardFile(split, len(parts), count, (folder / split).stat().st_size, 0),)
    Manifest(features=features, kind="packed", examples_per_record=4, splits=shards, **more).save(str(folder))
    return str(folder)


PICTURES = (Feature("image", "uint8", (2, 2, 1)), Feature("label", "int64"))


def pictures(numbers):
    numbers = np.array(numbers)
    return {"image": np.tile(numbers[:, None, None, None] * 5, [1, 2, 2, 1]).astype(np.uint8), "label": numbers % 3}


@pytest.mark.slow
def test_pictures_and_labels(tmp_path, flip_byte):
    path = write(tmp_path, {"train": 21, "test": 6}, PICTURES, pictures, label="label")
    data = records(path=path)
    assert data.description == "21 examples to train on, 6 held out"
    assert data.model_arguments == {"input_shape": (2, 2, 1), "num_classes": 3}
    (x, y), *_ = data.train.one_pass(batch_size=21)
    np.testing.assert_allclose(x[:, 0, 0, 0], np.arange(21) * 5 / 255, rtol=1e-6)
    assert y.numpy().tolist() == [number % 3 for number in range(21)]
    cached = records(path=path, cache=True, num_classes=7)
    assert isinstance(cached.train.stages()[0][1], ArraySource) and cached.model_arguments["num_classes"] == 7
    (x, _), *_ = cached.evaluation.one_pass(batch_size=6)
    np.testing.assert_allclose(x[:, 0, 0, 0], np.arange(6) * 5 / 255, rtol=1e-6)
    with pytest.raises(DataError, match="has no split 'dev': it has train, test"):
        records(path=path, evaluation="dev", num_classes=3)
    flip_byte(str(tmp_path / "train"), 2)
    with pytest.raises(DataError, match="/train, record 2: the checksum of its data is wrong: mend the file"):
        records(path=path)  # Whose largest label nobody told.
    assert records(path=path, on_bad_record="skip").train.size == 17


def test_a_table_without_a_label(tmp_path):
    features = (Feature("a", "float32"), Feature("b", "int32", (2,)))
    path = write(
        tmp_path, {"all": 5}, features, lambda n: {"a": np.float32(n), "b": np.stack([n, n], axis=1).astype(np.int32)}
    )
    data = records(path=path, train="all")
    assert data.evaluation is None and data.model_arguments == {}
    assert data.train.element_spec == {"a": tf.TensorSpec([], tf.float32), "b": tf.TensorSpec([2], tf.int32)}
