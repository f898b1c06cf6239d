"""The shipped digits: two files of real data, and nothing of one in the other."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data import digits

FOLDER = pathlib.Path(digits.__file__).parent


def read(name):
    """(images, labels, ids) of one file, in its order."""
    records = list(tf.data.TFRecordDataset(str(FOLDER / f"{name}.tfrecord")))
    parsed = tf.io.parse_example(
        records,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "id": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    images = tf.io.decode_raw(parsed["image"], tf.uint8)
    return images.numpy(), parsed["label"].numpy(), parsed["id"].numpy()


@pytest.fixture(scope="module")
def splits():
    return {name: read(name) for name in ("train", "test")}


def test_counts(splits):
    assert splits["train"][0].shape == (1437, 64)
    assert splits["test"][0].shape == (360, 64)


def test_every_image_is_in_one_file_once(splits):
    ids = np.concatenate([splits["train"][2], splits["test"][2]])
    assert sorted(ids) == list(range(1797))
    images = np.concatenate([splits["train"][0], splits["test"][0]])
    assert len({image.tobytes() for image in images}) == 1797  # nor is there a copy of one under another id


def test_labels(splits):
    # The counts of the whole set are those that scikit-learn documents.
    train, test = (np.bincount(splits[name][1], minlength=10) for name in ("train", "test"))
    assert list(test) == [31, 35, 39, 33, 44, 29, 40, 40, 28, 41]
    assert list(train + test) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_pixels_are_0_to_16(splits):
    for images, _, _ in splits.values():
        assert (images.min(), images.max()) == (0, 16)


def test_first_image(splits):
    # The first image of the original file, a zero, checked by eye.
    (images, labels, ids) = (np.concatenate(parts) for parts in zip(*splits.values()))
    (at,) = np.flatnonzero(ids == 0)
    assert labels[at] == 0
    assert images[at].reshape(8, 8).tolist() == [
        [0, 0, 5, 13, 9, 1, 0, 0],
        [0, 0, 13, 15, 10, 15, 5, 0],
        [0, 3, 15, 2, 0, 11, 8, 0],
        [0, 4, 12, 0, 0, 8, 8, 0],
        [0, 5, 8, 0, 0, 9, 8, 0],
        [0, 4, 11, 0, 1, 12, 7, 0],
        [0, 2, 14, 5, 10, 12, 0, 0],
        [0, 0, 6, 13, 10, 0, 0, 0],
    ]
