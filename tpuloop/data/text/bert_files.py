"""BERT's pre-training files, as `create_pretraining_data.py` of the original release writes them.

TFRecords of one `tf.train.Example` each: lists of int64, but floats for the weights, of one length in a whole file.
"""

from typing import Dict, Tuple

import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.errors import first_line

_OF_SEQUENCE = ("input_ids", "input_mask", "segment_ids")
_OF_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_LABEL = "next_sentence_labels"


def parse_bert(serialized: tf.Tensor, *, sequence_length: int, max_predictions: int) -> Dict[str, tf.Tensor]:
    """Parses a batch of examples.

    Args:
      serialized: strings of shape [batch], the records.
      sequence_length, max_predictions: what the file was made with; see `bert_lengths`.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` (int32 [batch, sequence_length]), `masked_lm_positions`,
      `masked_lm_ids` (int32) and `masked_lm_weights` (float32) of shape [batch, max_predictions], and
      `next_sentence_labels` (int32 [batch], 1 for a random second text).

    Raises:
      tf.errors.InvalidArgumentError: when it runs, for a record without one of these or of another length.
    """
    features = {name: tf.io.FixedLenFeature([sequence_length], tf.int64) for name in _OF_SEQUENCE}
    for name in _OF_PREDICTIONS:
        dtype = tf.float32 if name == "masked_lm_weights" else tf.int64
        features[name] = tf.io.FixedLenFeature([max_predictions], dtype)
    features[_LABEL] = tf.io.FixedLenFeature([], tf.int64)
    parsed = tf.io.parse_example(serialized, features)
    # Accelerators have no use for 64 bits.
    return {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in parsed.items()}


def bert_lengths(path: str) -> Tuple[int, int]:
    """The (sequence_length, max_predictions) of a file, by its first record.

    Raises:
      DataError: naming the file, for one that is no such file.
    """
    try:
        records = list(tf.data.TFRecordDataset(path).take(1).as_numpy_iterator())
    except tf.errors.OpError as error:
        raise DataError(f"{path} cannot be read as TFRecords: {first_line(error)}") from error
    if not records:
        raise DataError(f"{path} holds no records")
    example = tf.train.Example()
    try:
        example.ParseFromString(records[0])
    except Exception as error:  # DecodeError, whose module depends on the version of protobuf.
        raise DataError(f"{path}: record 0 is not a tf.train.Example: {first_line(error)}") from error
    lengths = {}
    for name in (*_OF_SEQUENCE, *_OF_PREDICTIONS, _LABEL):
        if name not in example.features.feature:
            there = ", ".join(sorted(example.features.feature)) or "none"
            raise DataError(f"{path}: record 0 has no feature {name!r}; its features are {there}")
        feature = example.features.feature[name]
        kind = "float_list" if name == "masked_lm_weights" else "int64_list"
        if feature.WhichOneof("kind") != kind:
            raise DataError(f"{path}: feature {name!r} of record 0 is a {feature.WhichOneof('kind')}, not a {kind}")
        lengths[name] = len(getattr(feature, kind).value)
    sequence_length, max_predictions = lengths[_OF_SEQUENCE[0]], lengths[_OF_PREDICTIONS[0]]
    expected = dict.fromkeys(_OF_SEQUENCE, sequence_length)
    expected.update(dict.fromkeys(_OF_PREDICTIONS, max_predictions))
    expected[_LABEL] = 1
    for name, length in expected.items():
        if lengths[name] != length:
            raise DataError(f"{path}: feature {name!r} of record 0 has {lengths[name]} values instead of {length}")
    return sequence_length, max_predictions
