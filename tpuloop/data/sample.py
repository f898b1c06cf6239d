"""Data sets by name, among them small real ones that need no download."""

import dataclasses
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.source import Source
from tpuloop.errors import UsageError


@dataclasses.dataclass(frozen=True)
class DataSets:
    """What a run trains and is judged on.

    Attributes:
      train: a source, arrays, a `tf.data.Dataset` of global batches, or a function that returns one of these.
      evaluation: likewise, held out; None for a run without evaluation.
      model_arguments: what a model must know of the data, as keyword arguments of its builder.
      description: for the start of a run, such as "1,437 examples to train on, 360 held out".
    """

    train: Any
    evaluation: Any = None
    model_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    description: str = ""

    def resolved(self) -> "DataSets":
        """The same with functions called, so that what they return is known."""
        train, evaluation = (_called(data) for data in (self.train, self.evaluation))
        return dataclasses.replace(self, train=train, evaluation=evaluation)


def _called(data: Any) -> Any:
    return data() if callable(data) and not isinstance(data, (tf.data.Dataset, Source)) else data


def digits() -> DataSets:
    """The UCI handwritten digits that ship with the package: 8x8 images, 10 classes.

    `x` is float32 of shape [8, 8, 1] from 0 to 1, `y` the digit as int64.
    """
    train, evaluation = (_read_digits(split) for split in ("train", "test"))
    return DataSets(
        train=ArraySource(train),
        evaluation=ArraySource(evaluation),
        model_arguments={"input_shape": (8, 8, 1), "num_classes": 10},
        description=f"{len(train[1]):,} examples to train on, {len(evaluation[1]):,} held out",
    )


def _read_digits(split: str) -> Tuple[np.ndarray, np.ndarray]:
    path = os.path.join(os.path.dirname(__file__), "digits", f"{split}.tfrecord")
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    records = tf.data.TFRecordDataset(path).batch(4096).with_options(_untuned())
    parts = [tf.nest.map_structure(np.asarray, tf.io.parse_example(record, features)) for record in records]
    pixels = np.frombuffer(b"".join(image for part in parts for image in part["image"]), np.uint8)
    images = pixels.reshape([-1, 8, 8, 1]).astype(np.float32) / 16
    return images, np.concatenate([part["label"] for part in parts])


def _untuned() -> tf.data.Options:
    """Without the thread that tunes a pipeline, which warns when one this short ends before it has begun."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def pydoc(
    *,
    sequence_length: int = 128,
    vocab_size: int = 4000,
    lower_case: bool = True,
    masking: str = "each_epoch",
    mask_rate: float = 0.15,
    max_predictions: Optional[int] = None,
    seed: int = 0,
) -> DataSets:
    """English text for masked language modelling: the language reference that comes with CPython.

    Examples are dicts with BERT's feature names; see `text.sequences` and `text.masking`. The vocabulary is trained on
    the text to train on, which takes about a second. The text differs between versions of Python.

    Args:
      sequence_length: tokens of an example; the text runs on through them.
      vocab_size: tokens of the vocabulary.
      lower_case: whether text is lower-cased.
      masking: "each_epoch" masks anew in every epoch (and what is held out always alike), "static" once for all.
      mask_rate: the share of tokens to predict.
      max_predictions: places to predict at most; by default as many as the rate asks for.
      seed: of static masks. Others follow the run's seed.

    Raises:
      UsageError: where the package `tokenizers` is missing, or an argument is out of range.
    """
    # Only who wants text waits for what it needs.
    from tpuloop.data.text import masking as masks
    from tpuloop.data.text import pydoc_text
    from tpuloop.data.text.masked_source import MaskedSource
    from tpuloop.data.text.sequences import Layout
    from tpuloop.data.text.wordpiece import WordPiece

    if masking not in ("each_epoch", "static"):
        raise UsageError(f"masking={masking!r}: give 'each_epoch' or 'static'")
    train, held_out = pydoc_text.split(pydoc_text.passages())
    words = WordPiece.trained(train, vocab_size=vocab_size, lower_case=lower_case)
    layout = Layout(sequence_length, words.special)
    how = masks.Masking(
        vocab_size=words.vocab_size,
        max_predictions=masks.default_predictions(sequence_length, rate=mask_rate)
        if max_predictions is None
        else max_predictions,
        rate=mask_rate,
        special=words.special,
    )

    def source(texts: List[str], part: int) -> Source:
        features = pydoc_text.packed(texts, words=words, layout=layout)
        if masking == "each_epoch":
            return MaskedSource(ArraySource(features), masking=how)
        numbers = np.arange(len(features["input_ids"]))
        seeds = np.stack([np.full_like(numbers, 2 * seed + part), numbers], axis=1)
        return ArraySource(masks.masked(features, seeds=seeds, masking=how))

    sources = [source(texts, part) for part, texts in enumerate((train, held_out))]
    return DataSets(
        train=sources[0],
        evaluation=sources[1],
        model_arguments={"vocab_size": words.vocab_size, "sequence_length": sequence_length},
        description=f"{sources[0].size:,} sequences to train on, {sources[1].size:,} held out, "
        f"{words.vocab_size:,} tokens in the vocabulary",
    )


DATA_SETS: Dict[str, Callable[..., DataSets]] = {"digits": digits, "pydoc": pydoc}
