"""Packed records as a source: many fixed-shape examples in a record, as `tpuloop data convert` writes them."""

from typing import Any, Dict, Optional, Sequence

import numpy as np
import tensorflow as tf

from tpuloop.data.file_source import FileSource
from tpuloop.data.lanes import RecordFile, RecordOrder
from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import example_bytes

_WINDOW = 32768
_WINDOW_BYTES = 64 * 2**20


class PackedSource(FileSource):
    """The examples of packed record files, each a dict of features.

    Args:
      files: in their stored order.
      features: in the order in which a record holds them.
      examples_per_record: of every record but the last of a file.
      window: about how many examples are shuffled with each other; by default 32768, or as many as fit into 64 MiB.
      shuffle: False keeps the stored order.

    Raises:
      DataError: where the files hold no examples.
    """

    def __init__(
        self,
        files: Sequence[RecordFile],
        *,
        features: Sequence[Feature],
        examples_per_record: int,
        window: Optional[int] = None,
        shuffle: bool = True,
    ):
        self._features = tuple(features)
        self._arguments: Dict[str, Any] = {
            "features": self._features,
            "examples_per_record": examples_per_record,
            "window": window,
            "shuffle": shuffle,
        }
        fitting = _WINDOW_BYTES // max(1, example_bytes(self._features))
        super().__init__(
            RecordOrder(
                files,
                examples_per_record=examples_per_record,
                window=min(_WINDOW, fitting) if window is None else window,
                shuffle=shuffle,
                decode=self._decode,
            )
        )

    def over(self, files: Sequence[RecordFile]) -> "PackedSource":
        return PackedSource(files, **self._arguments)

    @property
    def element_spec(self) -> Dict[str, tf.TensorSpec]:
        return {feature.name: tf.TensorSpec(feature.shape, feature.dtype) for feature in self._features}

    def wrong_record(self, data: bytes, examples: int) -> Optional[str]:
        expected = examples * example_bytes(self._features)
        if len(data) == expected:
            return None
        names = ", ".join(feature.name for feature in self._features)
        return f"it has {len(data)} bytes, and {examples} examples of {names} take {expected}"

    def _decode(self, records: tf.Tensor, examples: Any) -> Dict[str, tf.Tensor]:
        """The examples of some records, which hold as many each."""
        content = tf.io.decode_raw(records, tf.uint8)
        lengths = np.array([example_bytes([feature]) for feature in self._features], np.int64) * examples
        parts = tf.split(content, lengths, axis=1)
        return {feature.name: _typed(part, feature) for feature, part in zip(self._features, parts)}


def _typed(content: tf.Tensor, feature: Feature) -> tf.Tensor:
    """Bytes, little-endian as TensorFlow runs on nothing else, as values of the feature; [examples, ...]."""
    size = np.dtype(feature.dtype).itemsize
    if size == 1:
        values = tf.reshape(content, [-1, *feature.shape])
        if feature.dtype == "bool":
            return tf.not_equal(values, 0)
        return values if feature.dtype == "uint8" else tf.bitcast(values, feature.dtype)
    return tf.bitcast(tf.reshape(content, [-1, *feature.shape, size]), feature.dtype)
