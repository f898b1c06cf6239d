"""Files of all kinds to pixels, and what is said of those that are none."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.images.decode import check_image, decode_whole, decode_window

ORANGE = (200, 100, 50)


def decoded(encoded):
    return decode_whole(tf.constant(encoded)).numpy()


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.fixture(scope="module")
def all_kinds(pictures):
    """The bytes of a file of each kind, with what it must decode to and within how many levels."""
    colour, grey = pixels(6, 9, 3), pixels(6, 9, 1)
    as_colour = np.repeat(grey, 3, axis=-1)
    alpha = np.concatenate([colour, pixels(6, 9, 1)], axis=-1)
    palette, numbers = pixels(7, 3), pixels(6, 9) % 7
    smooth = pictures.gradient(20, 30)
    return {
        "jpeg": (pictures.jpeg(smooth), smooth, 8),
        "progressive jpeg": (pictures.jpeg(smooth, progressive=True), smooth, 8),
        "grey jpeg": (pictures.jpeg(smooth[..., :1]), np.repeat(smooth[..., :1], 3, axis=-1), 8),
        "cmyk jpeg": (pictures.CMYK_JPEG, np.full([6, 8, 3], ORANGE), 2),
        "jpeg of a pixel": (pictures.jpeg(np.full([1, 1, 3], 77, np.uint8)), np.full([1, 1, 3], 77), 1),
        "png": (pictures.png(colour), colour, 0),
        "grey png": (pictures.png(grey), as_colour, 0),
        "png with alpha": (pictures.png(alpha), colour, 0),
        "grey png with alpha": (pictures.png(np.concatenate([grey, grey], axis=-1)), as_colour, 0),
        "png of 16 bits": (pictures.png(colour.astype(np.uint16) * 257), colour, 0),
        "bmp": (pictures.bmp(colour), colour, 0),
        "bmp with alpha": (pictures.bmp(alpha), colour, 0),
        "bmp with a palette": (pictures.bmp(numbers, palette=palette), palette[numbers], 0),
        "gif": (pictures.gif([ORANGE]), np.full([1, 1, 3], ORANGE), 0),
        "gif of two frames": (pictures.gif([ORANGE, (0, 0, 255)]), np.full([1, 1, 3], ORANGE), 0),
    }


def test_all_kinds_decode_to_colours(all_kinds):
    for kind, (encoded, expected, within) in all_kinds.items():
        image = decoded(encoded)
        assert image.dtype == np.uint8 and image.shape == expected.shape, kind
        assert np.abs(image.astype(int) - expected).max() <= within, kind
        assert check_image(encoded) is None, kind


def test_a_window_is_that_part_of_the_whole(all_kinds):
    for kind in ("jpeg", "png", "bmp with a palette"):
        encoded = all_kinds[kind][0]
        window = decode_window(tf.constant(encoded), lambda size: tf.constant([2, 3, 4, 5]))
        np.testing.assert_array_equal(window, decoded(encoded)[2:6, 3:8])


def test_one_traced_function_takes_all_kinds(all_kinds):
    files = [encoded for encoded, _, _ in all_kinds.values()]
    dataset = tf.data.Dataset.from_tensor_slices(files).map(decode_whole)
    assert dataset.element_spec == tf.TensorSpec([None, None, 3], tf.uint8)
    for image, (encoded, _, _) in zip(dataset, all_kinds.values()):
        np.testing.assert_array_equal(image, decoded(encoded))


def test_nothing_below_the_window_of_a_jpeg_is_decoded(pictures):
    file = pictures.jpeg(pixels(400, 40, 3))
    half = tf.constant(file[: len(file) // 2])  # Without the lower half of the picture.
    image = decode_window(half, lambda size: tf.constant([10, 3, 150, 30])).numpy()
    np.testing.assert_array_equal(image, decoded(file)[10:160, 3:33])
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode_whole(half)


def test_no_graph_decodes_a_whole_jpeg():
    graph = tf.function(decode_whole).get_concrete_function(tf.TensorSpec([], tf.string)).graph.as_graph_def()
    nodes = [node.op for function in graph.library.function for node in function.node_def]
    assert sorted(op for op in nodes if op.startswith("Decode")) == [
        "DecodeAndCropJpeg",
        "DecodeBmp",
        "DecodeImage",
        "DecodeRaw",
    ]


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda file: b"", "it is empty (0 bytes)"),
        (lambda file: b"<html>no picture", "it is no JPEG, PNG, GIF or BMP: it begins with b'<html>no'"),
        (
            lambda file: b"RIFF\0\0\0\0WEBP",
            "it is no JPEG, PNG, GIF or BMP: it begins with b'RIFF\\x00\\x00\\x00\\x00'",
        ),
        (lambda file: file[:3], "it is a truncated JPEG: its 3 bytes lack the end marker"),
        (lambda file: file[: len(file) // 2], "it is a truncated JPEG: its {half} bytes lack the end marker"),
        (
            lambda file: file[:3] + file[-199:],
            "it is a JPEG of 202 bytes that is truncated, corrupted or of a kind that is not read",
        ),
    ],
)
def test_what_is_wrong_with_a_jpeg(damage, said, pictures):
    file = pictures.jpeg(pixels(20, 30, 3))
    damaged = damage(file)
    assert check_image(damaged) == said.format(half=len(file) // 2)
    with pytest.raises(tf.errors.InvalidArgumentError):
        decoded(damaged)


def test_what_is_wrong_with_others(pictures):
    for kind, file in (("PNG", pictures.png(pixels(20, 30, 3))), ("BMP", pictures.bmp(pixels(20, 30, 3)))):
        said = check_image(file[: len(file) // 2])
        assert said == (
            f"it is a {kind} of {len(file) // 2} bytes that is truncated, corrupted or of a kind that is not read"
        )


def test_checks_while_a_function_is_traced(pictures):
    said = []
    tf.function(lambda: said.append(check_image(pictures.CMYK_JPEG[:-30])))()
    assert said == ["it is a truncated JPEG: its 321 bytes lack the end marker"]
