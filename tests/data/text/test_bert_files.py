"""Files of the original release of BERT, written here as its create_pretraining_data.py writes them."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.index import counted
from tpuloop.data.record_source import RecordSource
from tpuloop.data.text.bert_files import bert_lengths, parse_bert


def int_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))


def float_feature(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=list(values)))


def serialized(tokens, segments, positions, labels, *, random_next, length=12, predictions=3, **changes):
    """write_instance_to_example_files of the original, for one instance."""
    padding = [0] * (length - len(tokens))
    missing = [0] * (predictions - len(positions))
    features = collections.OrderedDict()
    features["input_ids"] = int_feature([*tokens, *padding])
    features["input_mask"] = int_feature([1] * len(tokens) + padding)
    features["segment_ids"] = int_feature([*segments, *padding])
    features["masked_lm_positions"] = int_feature([*positions, *missing])
    features["masked_lm_ids"] = int_feature([*labels, *missing])
    features["masked_lm_weights"] = float_feature([1.0] * len(positions) + [0.0] * len(missing))
    features["next_sentence_labels"] = int_feature([1 if random_next else 0])
    features.update(changes)
    features = {name: feature for name, feature in features.items() if feature is not None}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


# [CLS] the man went [MASK] store [SEP] he bought [MASK] [SEP], and a shorter pair.
FIRST = ([101, 1996, 2158, 2253, 103, 3573, 102, 2002, 4149, 103, 102], [0] * 7 + [1] * 4, [4, 9], [2000, 6501])
SECOND = ([101, 103, 102, 7592, 102], [0, 0, 0, 1, 1], [1], [1996])


@pytest.fixture
def path(tmp_path):
    def write(*records):
        name = str(tmp_path / "pretraining.tfrecord")
        with tf.io.TFRecordWriter(name) as writer:
            for record in records:
                writer.write(record)
        return name

    return write


def test_what_a_file_holds(path):
    file = path(serialized(*FIRST, random_next=False), serialized(*SECOND, random_next=True))
    assert bert_lengths(file) == (12, 3)
    dataset = tf.data.TFRecordDataset(file).batch(2)
    dataset = dataset.map(lambda batch: parse_bert(batch, sequence_length=12, max_predictions=3))
    (batch,) = dataset
    assert {name: value.numpy().tolist() for name, value in batch.items()} == {
        "input_ids": [[*FIRST[0], 0], [*SECOND[0], 0, 0, 0, 0, 0, 0, 0]],
        "input_mask": [[1] * 11 + [0], [1] * 5 + [0] * 7],
        "segment_ids": [[0] * 7 + [1] * 4 + [0], [0, 0, 0, 1, 1] + [0] * 7],
        "masked_lm_positions": [[4, 9, 0], [1, 0, 0]],
        "masked_lm_ids": [[2000, 6501, 0], [1996, 0, 0]],
        "masked_lm_weights": [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        "next_sentence_labels": [0, 1],
    }
    for name, value in batch.items():
        assert value.dtype == (tf.float32 if name == "masked_lm_weights" else tf.int32)
    shapes = {name: spec.shape.as_list()[1:] for name, spec in dataset.element_spec.items()}
    assert shapes == {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), [12]),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), [3]),
        "next_sentence_labels": [],
    }


@pytest.mark.parametrize("lengths", [(11, 3), (12, 2), (13, 3)])
def test_other_lengths_are_refused(lengths):
    records = tf.constant([serialized(*FIRST, random_next=False)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Key: (input|segment|masked_lm)_.* != expected"):
        parse_bert(records, sequence_length=lengths[0], max_predictions=lengths[1])


@pytest.mark.parametrize(
    "changes, expected",
    [
        (
            {"segment_ids": None},
            "record 0 has no feature 'segment_ids'; its features are input_ids, input_mask, masked",
        ),
        ({"input_mask": int_feature([1] * 11)}, "feature 'input_mask' of record 0 has 11 values instead of 12"),
        ({"masked_lm_ids": int_feature([5])}, "feature 'masked_lm_ids' of record 0 has 1 values instead of 3"),
        ({"masked_lm_weights": int_feature([1, 1, 0])}, "'masked_lm_weights' .* is a int64_list, not a float_list"),
        ({"next_sentence_labels": int_feature([0, 1])}, "'next_sentence_labels' of record 0 has 2 values instead of 1"),
    ],
)
def test_files_that_are_not_like_it(path, changes, expected):
    file = path(serialized(*FIRST, random_next=False, **changes))
    with pytest.raises(DataError, match=f"pretraining.tfrecord: .*{expected}"):
        bert_lengths(file)


def test_files_of_other_things(path, tmp_path):
    with pytest.raises(DataError, match="pretraining.tfrecord holds no records"):
        bert_lengths(path())
    with pytest.raises(DataError, match="pretraining.tfrecord: record 0 is not a tf.train.Example"):
        bert_lengths(path(b"\xff\xff\xff"))
    (tmp_path / "text").write_text("This is no TFRecord file, but text.")
    with pytest.raises(DataError, match="text cannot be read as TFRecords: "):
        bert_lengths(str(tmp_path / "text"))
    with pytest.raises(DataError, match="missing cannot be read as TFRecords: "):
        bert_lengths(str(tmp_path / "missing"))


def test_weights_of_zero_and_labels_survive_as_they_are():
    records = tf.constant([serialized(*SECOND, random_next=value) for value in (True, False, True)])
    found = parse_bert(records, sequence_length=12, max_predictions=3)
    np.testing.assert_array_equal(found["next_sentence_labels"], [1, 0, 1])


def test_as_a_source(path):
    file = path(*(serialized(*(FIRST if n % 2 else SECOND), random_next=n % 2 == 0) for n in range(10)))
    sequence_length, max_predictions = bert_lengths(file)
    parse = functools.partial(parse_bert, sequence_length=sequence_length, max_predictions=max_predictions)
    source = RecordSource(counted([file])).map_batches(parse)
    assert source.size == 10 and source.element_spec["input_ids"] == tf.TensorSpec([12], tf.int32)
    (batch,) = source.batches(batch_size=10, seed=0).take(1)
    assert sorted(batch["next_sentence_labels"].numpy()) == [0] * 5 + [1] * 5
    assert sorted(batch["input_ids"].numpy()[:, 1]) == [103] * 5 + [1996] * 5
