"""A sheet of pictures, read back."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.images.sheet import contact_sheet

RED, GREEN = (200, 30, 10), (20, 160, 40)


def plain(height, width, colour):
    return np.full([height, width, 3], colour, np.uint8)


def sheet(*args, **kwargs):
    png = contact_sheet(*args, **kwargs)
    assert isinstance(png, bytes)
    return tf.io.decode_png(png).numpy()


def places(image, colour):
    """The box [top, left, bottom, right] of the pixels of a colour, which fill it."""
    rows, columns = np.nonzero((image == colour).all(axis=-1))
    top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
    assert len(rows) == (bottom - top) * (right - left)
    return top, left, bottom, right


def test_pictures_stand_in_rows():
    colours = [(60 + 40 * number, 0, 90) for number in range(5)]
    image = sheet([plain(10, 16, colour) for colour in colours], columns=3, side=16)
    boxes = [places(image, colour) for colour in colours]
    assert all((bottom - top, right - left) == (10, 16) for top, left, bottom, right in boxes)
    tops, lefts = [box[0] for box in boxes], [box[1] for box in boxes]
    assert tops[0] == tops[1] == tops[2] < tops[3] == tops[4]
    assert lefts[0] == lefts[3] < lefts[1] == lefts[4] < lefts[2]
    # A margin of 4 pixels at the edge and between pictures.
    assert lefts[0] == 4 and lefts[1] - lefts[0] == 20 and image.shape[1] - boxes[2][3] == 4


def test_small_pictures_are_enlarged_by_a_whole_factor_and_large_ones_reduced():
    image = sheet([plain(8, 8, RED), plain(300, 100, GREEN)], side=30)
    top, left, bottom, right = places(image, RED)
    assert (bottom - top, right - left) == (24, 24)
    top, left, bottom, right = places(image, GREEN)
    assert (bottom - top, right - left) == (30, 10)


def test_pixels_stay_as_they_are():
    pixels = np.random.default_rng(0).integers(1, 250, [4, 5, 3], np.uint8)
    image = sheet([pixels], side=5)
    np.testing.assert_array_equal(image[-8:-4, 4:9], pixels)
    enlarged = sheet([pixels], side=14)
    np.testing.assert_array_equal(enlarged[-12:-4:2, 4:14:2], pixels)


def test_grey_pictures():
    grey = np.arange(20, dtype=np.uint8).reshape(4, 5)
    for picture in (grey, grey[..., np.newaxis]):
        np.testing.assert_array_equal(sheet([picture], side=5)[-8:-4, 4:9], grey[..., np.newaxis].repeat(3, axis=-1))


def drawn(image):
    """The points above the first picture, as text."""
    points = image[4:14:2, 4:-4:2, 0] == 0
    return ["".join("#" if point else " " for point in row).rstrip() for row in points]


def test_numbers_are_drawn_above():
    assert drawn(sheet([plain(40, 90, RED)], numbers=[1234567890])) == [
        " #  ### ### # # ### ### ### ### ### ###",
        "##    #   # # # #   #     # # # # # # #",
        " #  ### ### ### ### ###   # ### ### # #",
        " #  #     #   #   # # #   # # #   # # #",
        "### ### ###   # ### ###   # ### ### ###",
    ]
    assert drawn(sheet([plain(40, 90, RED)])) == ["###", "# #", "# #", "# #", "###"]


def test_a_number_may_be_wider_than_its_picture():
    image = sheet([plain(4, 4, RED), plain(4, 4, GREEN)], numbers=[99999, 1], side=4)
    assert places(image, GREEN)[1] >= 4 + 5 * 8


@pytest.mark.parametrize(
    "images, options, said",
    [
        ([], {}, "there are no pictures"),
        ([np.zeros([4, 4, 3])], {}, r"must be uint8 of \[height, width, 1 or 3\]; it is float64 of \(4, 4, 3\)"),
        ([np.zeros([4, 4, 2], np.uint8)], {}, "it is uint8 of"),
        ([np.zeros([0, 4, 3], np.uint8)], {}, "it is uint8 of"),
        ([plain(4, 4, RED)], {"numbers": [1, 2]}, r"1 pictures need a number of at least 0 each; there are \[1, 2\]"),
        ([plain(4, 4, RED)], {"numbers": [-1]}, "at least 0"),
        ([plain(4, 4, RED)], {"columns": 0}, "columns and side must be at least 1; they are 0 and 128"),
    ],
)
def test_what_it_refuses(images, options, said):
    with pytest.raises(ValueError, match=said):
        contact_sheet(images, **options)
