"""Data sets by name, among them small real ones that need no download."""

import dataclasses
import os
from typing import Any, Callable, Dict, Mapping, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.images.data_sets import imagenet, images
from tpuloop.data.source import Source


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


DATA_SETS: Dict[str, Callable[..., DataSets]] = {"digits": digits, "imagenet": imagenet, "images": images}
