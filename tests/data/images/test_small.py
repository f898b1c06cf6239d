"""Small pictures moved and mirrored."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.images.small import random_crop_and_flip

IMAGE = np.arange(1, 41, dtype=np.uint8).reshape(5, 4, 2)


def all_of(padding, flip=True):
    """Every picture that can come out, by (down, right, mirrored)."""
    padded = np.pad(IMAGE, [(padding, padding), (padding, padding), (0, 0)])
    moved = {
        (down, right): padded[down : down + 5, right : right + 4]
        for down in range(2 * padding + 1)
        for right in range(2 * padding + 1)
    }
    return {
        image[:, :: -1 if mirrored else 1].tobytes(): (*place, mirrored)
        for place, image in moved.items()
        for mirrored in ((False, True) if flip else (False,))
    }


def drawn(count, **options):
    seeds = tf.stack([tf.range(count), tf.fill([count], 3)], axis=1)
    return [
        image.numpy()
        for image in tf.data.Dataset.from_tensor_slices(seeds).map(
            lambda seed: random_crop_and_flip(tf.constant(IMAGE), seed, **options)
        )
    ]


def test_all_moves_and_no_others():
    expected = all_of(1)
    found = [expected[image.tobytes()] for image in drawn(300, padding=1)]
    assert set(found) == set(expected.values())
    assert all(image.dtype == np.uint8 and image.shape == IMAGE.shape for image in drawn(3, padding=1))
    down, right, mirrored = np.array(found).T
    assert 110 < mirrored.sum() < 190  # 150, and 4 standard deviations.
    # Nor does one draw tell of another: 4 standard deviations of a correlation of nothing.
    assert all(abs(np.corrcoef(pair)[0, 1]) < 0.23 for pair in ((down, right), (down, mirrored), (right, mirrored)))


def test_four_pixels_unless_told():
    expected = all_of(4)
    downs = {expected[image.tobytes()][0] for image in drawn(100)}
    assert downs == set(range(9))


def test_no_flip():
    expected = all_of(1, flip=False)
    assert {expected[image.tobytes()][:2] for image in drawn(100, padding=1, flip=False)} == {
        place[:2] for place in expected.values()
    }


def test_nothing_to_do():
    assert all(image.tobytes() == IMAGE.tobytes() for image in drawn(3, padding=0, flip=False))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_same_seed_same_picture(dtype):
    images = [random_crop_and_flip(tf.constant(IMAGE), tf.constant(seed, dtype)) for seed in ([1, 2], [1, 2], [4, 2])]
    np.testing.assert_array_equal(images[0], images[1])
    assert np.any(images[0] != images[2])


def test_what_it_refuses():
    with pytest.raises(ValueError, match=r"must have a static shape \[height, width, channels\]; it is \(5, 4\)"):
        random_crop_and_flip(tf.zeros([5, 4]), tf.constant([1, 2]))
    with pytest.raises(ValueError, match="padding must be at least 0; it is -1"):
        random_crop_and_flip(tf.constant(IMAGE), tf.constant([1, 2]), padding=-1)
