"""What `tpuloop data convert` wrote, as a data set."""

from typing import Any, Dict, Mapping, Optional

import tensorflow as tf

from tpuloop.data.bad_records import MOST, with_policy
from tpuloop.data.cache import measured_bytes
from tpuloop.data.checks import DataError
from tpuloop.data.converted import converted_source, features_and_label, record_files
from tpuloop.data.faults import naming_faults
from tpuloop.data.images.layouts import CLASSIC
from tpuloop.data.records.manifest import PACKED, Manifest
from tpuloop.data.sets.pictures import of_files
from tpuloop.data.sets.registry import DataSets
from tpuloop.data.source import Source
from tpuloop.data.text.masked_source import masked_source
from tpuloop.data.text.masking import Masking

_MASKED = "masked_lm_positions"

_SMALL = 32 * 2**20


def records(
    *,
    path: str,
    train: str = "train",
    evaluation: Optional[str] = None,
    num_classes: Optional[int] = None,
    mask_rate: float = 0.15,
    max_predictions: Optional[int] = None,
    size: int = 224,
    augment: Optional[str] = "crop",
    dtype: str = "float32",
    cache: Optional[bool] = None,
    on_bad_record: str = "fail",
    max_bad_records: int = MOST,
) -> DataSets:
    """A folder that `tpuloop data convert` wrote.

    With a label, examples are `(x, y)`: `x` the one other feature, or a dict of several; pictures of uint8 become
    float32 from 0 to 1. Without, they are dicts of features. Text that was converted without masks is masked anew in
    every epoch.

    Args:
      path: the folder, local or such as gs://BUCKET/FOLDER.
      train: the split to train on.
      evaluation: the split held out; by default "test" where there is one.
      num_classes: of an integer label without names; by default the largest label says, for which all are read.
      mask_rate, max_predictions: of text that is masked when it is read; see `text.masking`.
      size, augment, dtype: of pictures that were kept as files; see `pictures.imagenet`.
      cache: whether examples are read once and then lie in memory, shuffled over the whole of them; by default those
        of at most 32 MiB are, as short epochs cost more to read than to hold.
      on_bad_record, max_bad_records: see `bad_records.with_policy`.

    Raises:
      UsageError: where the folder is none or is damaged, has no such split, or its examples do not fit into memory.
    """
    manifest = Manifest.load(path)
    held_out = evaluation or ("test" if "test" in manifest.splits and train != "test" else None)
    train_files = record_files(path, manifest, train)
    held_out_files = None if held_out is None else record_files(path, manifest, held_out)
    if manifest.label == CLASSIC.label_key:
        return of_files(
            train_files,
            held_out_files,
            num_classes=num_classes or len(manifest.classes or ()),
            size=size,
            augment=augment,
            dtype=dtype,
            cache=bool(cache),
            on_bad_record=on_bad_record,
            max_bad_records=max_bad_records,
        )
    masking = _masking(manifest, mask_rate=mask_rate, max_predictions=max_predictions)

    def source(split: str) -> Source:
        found = with_policy(
            converted_source(path, split=split, manifest=manifest),
            on_bad_record=on_bad_record,
            max_bad_records=max_bad_records,
        )
        small = manifest.kind == PACKED and measured_bytes(found) <= _SMALL
        found = found.cached() if cache or cache is None and small else found
        if masking is not None:
            return masked_source(found, masking=masking)
        pair = features_and_label(manifest)
        return found if pair is None else found.map_batches(lambda batch: _scaled(pair(batch)), name="pair")

    to_train = source(train)
    to_hold_out = None if held_out is None else source(held_out)
    held = "none held out" if to_hold_out is None else f"{to_hold_out.size:,} held out"
    return DataSets(
        train=to_train,
        evaluation=to_hold_out,
        model_arguments=_model_arguments(manifest, to_train, num_classes),
        description=f"{to_train.size:,} examples to train on, {held}",
    )


def _scaled(example: Any) -> Any:
    """`(x, y)` with pictures as numbers from 0 to 1."""
    x, y = example
    if isinstance(x, tf.Tensor) and x.dtype == tf.uint8:
        x = tf.cast(x, tf.float32) / 255
    return x, y


def _model_arguments(manifest: Manifest, source: Source, num_classes: Optional[int]) -> Mapping[str, Any]:
    arguments: Dict[str, Any] = {}
    text = manifest.made.get("text")
    if text is not None:
        arguments.update(vocab_size=text["vocab_size"], sequence_length=text["sequence_length"])
        paired = any(feature.name == "next_sentence_labels" for feature in manifest.features)
        arguments["task"] = "classification" if manifest.label else "pretraining" if paired else "masked_lm"
    if manifest.label is None:
        if text is not None:
            arguments["max_predictions"] = source.element_spec[_MASKED].shape[0]
        return arguments
    x, y = source.element_spec
    if isinstance(x, tf.TensorSpec):
        arguments["input_shape"] = tuple(x.shape)
    if y.dtype.is_integer:
        arguments["num_classes"] = num_classes or len(manifest.classes or ()) or _largest(source) + 1
    return arguments


def _largest(source: Source) -> int:
    labels = source.one_pass(batch_size=4096).map(lambda x, y: tf.cast(tf.reduce_max(y), tf.int64))
    with naming_faults(source, lambda stage: stage.numbered_pass(batch_size=4096)):
        return int(labels.reduce(tf.constant(-1, tf.int64), tf.maximum))


def _masking(manifest: Manifest, *, mask_rate: float, max_predictions: Optional[int]) -> Optional[Masking]:
    """How text is masked when it is read; None for what is masked already, has labels, or is no text."""
    text = manifest.made.get("text")
    if text is None or manifest.label is not None or any(feature.name == _MASKED for feature in manifest.features):
        return None
    try:
        return Masking.of_converted(text, rate=mask_rate, max_predictions=max_predictions)
    except (KeyError, TypeError) as error:
        raise DataError(f"the manifest does not say how its text was made ({error}): convert it anew") from error
