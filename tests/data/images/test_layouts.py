"""Records of both layouts, and what is said of others."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.images.layouts import CLASSIC, TFDS, Layout, detect_layout


def classic(pictures, label, encoded=b"jpeg", **more):
    return pictures.record(image__encoded=encoded, image__class__label=label, **more)


def test_detects_the_classic_layout(pictures):
    boxes = {f"image__object__bbox__{side}": [0.1, 0.7] for side in ("xmin", "ymin", "xmax", "ymax")}
    full = classic(pictures, 1, image__class__text=b"tench", image__height=3, **boxes)
    assert detect_layout(full) == detect_layout(classic(pictures, 1)) == CLASSIC


def test_detects_the_layout_of_tfds(pictures):
    assert detect_layout(pictures.record(image=b"jpeg", label=0, file_name=b"n01440764_36.JPEG")) == TFDS


@pytest.mark.parametrize(
    "features, found",
    [
        ({"x": [0.5, 0.7], "y": 1}, "it has x (2 x float), y (int64)"),
        ({"image": b"jpeg"}, "it has image (bytes)"),
        ({"image": b"jpeg", "label": 0.5}, "it has image (bytes), label (float)"),
        ({"image": [1, 2, 3], "label": 1}, "it has image (3 x int64), label (int64)"),
        ({"image__encoded": b"jpeg", "image__class__text": b"tench"}, "it has image/class/text (bytes), image/encoded"),
        ({}, "it has no features"),
    ],
)
def test_names_what_other_records_have(features, found, pictures):
    with pytest.raises(DataError) as error:
        detect_layout(pictures.record(**features))
    assert str(error.value).startswith(
        "no layout of pictures: a record must have image/encoded (bytes) and image/class/label (int64) "
        f"or image (bytes) and label (int64); {found}"
    )
    assert "\n" not in str(error.value)


def test_what_is_no_example():
    with pytest.raises(DataError, match="a record of 9 bytes is no tf.train.Example"):
        detect_layout(b"\xff\xd8\xffnothing"[:9])


@pytest.mark.parametrize("layout, first", [(CLASSIC, 1), (TFDS, 0)])
def test_parses_a_batch_with_labels_from_0(layout, first, pictures):
    names = {layout.image_key.replace("/", "__"): b"one", layout.label_key.replace("/", "__"): first}
    others = {**names, layout.image_key.replace("/", "__"): b"two", layout.label_key.replace("/", "__"): first + 999}
    batches = tf.data.Dataset.from_tensor_slices([pictures.record(**names), pictures.record(**others)]).batch(2)
    dataset = batches.map(lambda serialized: layout.parse(serialized, num_classes=1000))
    assert dataset.element_spec == (tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64))
    (encoded, label), *_ = dataset
    assert encoded.numpy().tolist() == [b"one", b"two"]
    assert label.numpy().tolist() == [0, 999]


@pytest.mark.parametrize(
    "features, named",
    [
        ({"image__encoded": b"jpeg"}, "image/class/label"),
        ({"image__class__label": 1}, "image/encoded"),
    ],
)
def test_a_missing_feature_is_named(features, named, pictures):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"Feature: {named} .* is required but could not be found"
    ):
        CLASSIC.parse(tf.constant([pictures.record(**features)]))


@pytest.mark.parametrize(
    "layout, labels, num_classes, said",
    [
        (
            CLASSIC,
            [1, 0, 1001, 2],
            1000,
            r"image/class/label: labels must be 1 to 1000 \(classic layout\); these are not:.*0,? 1001",
        ),
        (CLASSIC, [1, 0], None, r"image/class/label: labels must be at least 1 \(.*\); these are not:.*0"),
        (TFDS, [9, -1, 10], 10, r"label: labels must be 0 to 9 \(TFDS layout\); these are not:.*-1,? 10"),
    ],
)
def test_labels_of_no_class_are_named(layout, labels, num_classes, said, pictures):
    names = (layout.image_key.replace("/", "__"), layout.label_key.replace("/", "__"))
    serialized = tf.constant([pictures.record(**{names[0]: b"jpeg", names[1]: label}) for label in labels])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s)feature {said}"):
        layout.parse(serialized, num_classes=num_classes)
    dataset = tf.data.Dataset.from_tensors(serialized).map(lambda batch: layout.parse(batch, num_classes=num_classes))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s)feature {said}"):
        next(iter(dataset))


def test_no_layout_with_one_feature_for_both():
    with pytest.raises(DataError, match="layout 'mine': picture and label need two feature names, not 'x' and 'x'"):
        Layout(name="mine", image_key="x", label_key="x")


def test_a_layout_of_ones_own(pictures):
    mine = Layout(name="mine", image_key="photo", label_key="kind", first_label=10)
    _, label = mine.parse(tf.constant([pictures.record(photo=b"", kind=12)]))
    np.testing.assert_array_equal(label, [2])
