"""What `tpuloop data convert` wrote, as sources."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.lanes import RecordFile
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.manifest import PACKED, Feature, Manifest
from tpuloop.data.source import Source
from tpuloop.paths import join


def converted_source(
    folder: str, *, split: str = "train", manifest: Optional[Manifest] = None, shuffle: bool = True
) -> Source:
    """The examples of one split of a converted folder, each a dict of features.

    Args:
      folder: local or such as gs://BUCKET/FOLDER.
      split: such as "train" or "test".
      manifest: of the folder, where it is known already.
      shuffle: False keeps the stored order.

    Raises:
      UsageError: where the folder is none, is damaged, or has no such split.
    """
    manifest = manifest or Manifest.load(folder)
    parts = record_files(folder, manifest, split)
    if manifest.kind == PACKED:
        return PackedSource(
            parts, features=manifest.features, examples_per_record=manifest.examples_per_record, shuffle=shuffle
        )
    return RecordSource(parts, shuffle=shuffle).map_batches(_parser(manifest.features))


def record_files(folder: str, manifest: Manifest, split: str) -> List[RecordFile]:
    """The files of a split.

    Raises:
      DataError: where there is no such split.
    """
    if split not in manifest.splits:
        raise DataError(f"{folder} has no split {split!r}: it has {', '.join(manifest.splits)}")
    return [RecordFile(join(folder, shard.file), shard.records, shard.examples) for shard in manifest.splits[split]]


def features_and_label(manifest: Manifest) -> Optional[Callable[[Mapping[str, Any]], Any]]:
    """The function from examples as dicts to `(x, y)`; None for a manifest without a label.

    A single feature beside the label is `x` itself, several are a dict.
    """
    label = manifest.label
    if label is None:
        return None
    names = [feature.name for feature in manifest.features if feature.name != label]

    def pair(example: Mapping[str, Any]) -> Any:
        x = example[names[0]] if len(names) == 1 else {name: example[name] for name in names}
        return x, example[label]

    return pair


def _parser(features: Sequence[Feature]) -> Callable[[tf.Tensor], Dict[str, Any]]:
    """Parses a batch of serialized examples with the features of a manifest."""
    spec = {feature.name: _parse_spec(feature) for feature in features}

    def parse(serialized: tf.Tensor) -> Dict[str, Any]:
        parsed = tf.io.parse_example(serialized, spec)
        numbers = [feature for feature in features if feature.dtype != "bytes"]
        return {**parsed, **{feature.name: tf.cast(parsed[feature.name], feature.dtype) for feature in numbers}}

    return parse


def _parse_spec(feature: Feature) -> Any:
    """tf.train.Example holds bytes, int64 and float32 only."""
    if feature.dtype == "bytes":
        dtype = tf.string
    else:
        dtype = tf.float32 if np.issubdtype(np.dtype(feature.dtype), np.floating) else tf.int64
    if None in feature.shape:
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature(feature.shape, dtype)
