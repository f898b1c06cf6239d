"""The digits that ship with the package."""

import os
from typing import Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.sets.registry import DataSets


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
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "digits", f"{split}.tfrecord")
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
