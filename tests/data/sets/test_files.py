"""Data sets of small real files: CSV, npz, JSON lines, BERT's files; and made-up ones."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.sets.files import bert, csv, jsonl, npz
from tpuloop.data.sets.synthetic import synthetic
from tpuloop.errors import UsageError


def test_csv(tmp_path):
    rows = [f"{number},{number * 2},{'yes' if number % 3 else 'no'},left out\n" for number in range(200)]
    (tmp_path / "table.csv").write_text("a,b,answer,note\n" + "".join(rows))
    data = csv(path=str(tmp_path / "*.csv"), label="answer", drop=["note"], held_out=0.2)
    x, y = data.train.arrays
    held_x, held_y = data.evaluation.arrays
    assert x.dtype == np.float32 and y.dtype == np.int64 and x.shape[1:] == (2,)
    assert len(x) + len(held_x) == 200 and 20 <= len(held_x) <= 60
    assert data.model_arguments == {"input_shape": (2,), "num_classes": 2}
    assert data.description == f"{len(x)} examples to train on, {len(held_x)} held out"
    for values, labels in ((x, y), (held_x, held_y)):
        np.testing.assert_array_equal(values[:, 1], 2 * values[:, 0])
        np.testing.assert_array_equal(labels, values[:, 0] % 3 != 0)  # "no" sorts before "yes".
    assert sorted([*x[:, 0], *held_x[:, 0]]) == list(range(200))
    again = csv(path=str(tmp_path / "*.csv"), label="answer", drop=["note"], held_out=0.2)
    np.testing.assert_array_equal(again.evaluation.arrays[0], held_x)
    other = csv(path=str(tmp_path / "*.csv"), label="answer", drop=["note"], held_out=0.2, seed=1)
    assert other.evaluation.arrays[0].tolist() != held_x.tolist()
    with pytest.raises(UsageError, match="table.csv.*row|column"):
        csv(path=str(tmp_path / "table.csv"), label="missing")


def test_npz(tmp_path):
    x = np.arange(60, dtype=np.uint8).reshape([20, 3])
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(20) % 4, rest=np.zeros(20))
    data = npz(path=str(tmp_path / "data.npz"), drop=["rest"], held_out=0)
    assert data.evaluation is None and data.model_arguments == {"input_shape": (3,), "num_classes": 4}
    got, labels = data.train.arrays
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(labels, np.arange(20) % 4)
    several = npz(path=str(tmp_path / "data.npz"), held_out=0, num_classes=9)
    assert set(several.train.element_spec[0]) == {"x", "rest"} and several.model_arguments == {"num_classes": 9}
    for held_out, says in ((1.0, "held_out must be a share"), (-0.1, "held_out"), (0.001, "20 examples are too few")):
        with pytest.raises(DataError, match=says):
            npz(path=str(tmp_path / "data.npz"), held_out=held_out)


def test_json_lines(tmp_path):
    pytest.importorskip("tokenizers")
    lines = [{"text": f"the number {'good' if n % 2 else 'bad'} {n}", "label": n % 2} for n in range(50)]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = jsonl(path=str(tmp_path / "lines.jsonl"), vocab_size=80, sequence_length=12)
    x, y = data.train.element_spec
    assert {name: spec.shape.as_list() for name, spec in x.items()} == dict.fromkeys(
        ["input_ids", "input_mask", "segment_ids"], [12]
    )
    assert y == tf.TensorSpec([], tf.int64) and data.train.size + data.evaluation.size == 50
    assert data.model_arguments["num_classes"] == 2 and data.model_arguments["sequence_length"] == 12
    ids, labels = data.train.arrays[0]["input_ids"], data.train.arrays[1]
    assert len({tuple(row[:4]) for row in ids[labels == 1]}) == 1  # [CLS] the number good


def bert_record(number, *, length=6, predictions=2, **changes):
    lists = {
        "input_ids": [number] * length,
        "input_mask": [1] * length,
        "segment_ids": [0] * length,
        "masked_lm_positions": [1] * predictions,
        "masked_lm_ids": [5] * predictions,
        "next_sentence_labels": [number % 2],
        **changes,
    }
    features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in lists.items()}
    features["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0] * predictions))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.mark.slow
def test_bert(files, flip_byte):
    def text(number):
        return bert_record(number, **({"segment_ids": [0]} if number == 2 else {}))

    source = files.records([4, 3], text=text)
    flip_byte(source.files[1].path, 2, "length")
    pattern = f"{files.folder}/part-*.tfrecord"
    with pytest.raises(DataError, match="part-001.tfrecord, record 2 at byte"):
        bert(path=pattern)
    data = bert(path=pattern, on_bad_record="skip", vocab_size=100)
    assert data.description == "5 sequences to train on, none held out"
    sizes = {"vocab_size": 100, "sequence_length": 6, "max_predictions": 2}
    assert data.model_arguments == {**sizes, "task": "pretraining"}
    (batch,) = data.train.one_pass(batch_size=5)
    assert batch["input_ids"][:, 0].numpy().tolist() == [0, 1, 3, 4, 5]
    assert batch["next_sentence_labels"].dtype == tf.int32
    with pytest.raises(DataError, match="more than 1 bad records, the first of them .*part-001.tfrecord, record 2: "):
        bert(path=pattern, on_bad_record="skip", max_bad_records=1)


@pytest.mark.parametrize("arguments, x", [
    ({"input_shape": (3, 2), "examples": 10}, tf.TensorSpec([3, 2], tf.float32)),
    ({"input_shape": [5], "dtype": "uint8"}, tf.TensorSpec([5], tf.uint8)),
    ({"input_shape": (7,), "vocab_size": 30}, tf.TensorSpec([7], tf.int32)),
])  # fmt: skip
def test_synthetic(arguments, x):
    data, again = synthetic(num_classes=4, **arguments), synthetic(num_classes=4, **arguments)
    assert data.train.element_spec == (x, tf.TensorSpec([], tf.int64))
    assert data.train.size == arguments.get("examples", 1024) and data.evaluation is None
    assert set(data.train.arrays[1]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(data.train.arrays[0], again.train.arrays[0])
    if "vocab_size" in arguments:
        assert 0 <= data.train.arrays[0].min() and data.train.arrays[0].max() == 29


@pytest.mark.parametrize("wrong", [{"num_classes": 0}, {"examples": 2.5}, {"input_shape": (3, 0)}, {"dtype": "int64"}])
def test_synthetic_data_that_cannot_be(wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        synthetic(**wrong)
