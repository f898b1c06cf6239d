"""Where the crops of photographs lie, what they are resized and normalised to, and what is drawn for which seed."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.images.preprocess import central_window, eval_image, normalise, random_window, train_image

SIZE = 32


def denormalised(image):
    """Back to levels from 0 to 255, with the numbers that torchvision documents."""
    return (np.asarray(image, np.float64) * [0.229, 0.224, 0.225] + [0.485, 0.456, 0.406]) * 255


def levels(begin, extent, whole, size=SIZE):
    """What a gradient's levels are at the `size` pixels that a stretch of `extent` of its pixels is resized to."""
    places = begin + (np.arange(size) + 0.5) * extent / size - 0.5
    return places * 255 / (whole - 1)


def window_of(image, height, width):
    """Where a picture of `Pictures.gradient` was cut: [y, x, height, width]; a negative width where it is mirrored."""
    image = denormalised(image)
    found = []
    for profile, whole in ((image[..., 1].mean(axis=1), height), (image[..., 0].mean(axis=0), width)):
        # Away from the edges, where the resizing repeats pixels.
        steps = np.arange(4, SIZE - 4)
        slope, first = np.polyfit(steps + 0.5, profile[4 : SIZE - 4] * (whole - 1) / 255, 1)
        found.append((first + 0.5, slope * SIZE))
    (y, tall), (x, wide) = found
    return np.array([y, x + min(0, wide), tall, wide])


def windows(whole, seeds, **options):
    """int32 [seeds, 4]."""
    of_seed = tf.function(lambda seed: random_window(tf.constant(whole), seed, size=224, **options))
    return np.array([of_seed(tf.constant([seed, 5])) for seed in range(seeds)])


# The reference: the side is 7 / 8 of the shorter one (224 of 256), rounded down; the rest is split, rounded up above.
@pytest.mark.parametrize(
    "whole, window",
    [
        ((256, 256), (16, 16, 224, 224)),
        ((375, 500), (24, 86, 328, 328)),  # 328.125
        ((500, 375), (86, 24, 328, 328)),
        ((9, 2000), (1, 997, 7, 7)),  # 7.875
        ((1, 1), (0, 0, 1, 1)),  # 0.875, but at least a pixel
        ((1, 300), (0, 150, 1, 1)),
        ((2, 2), (1, 1, 1, 1)),
    ],
)
def test_central_window(whole, window):
    assert tuple(central_window(tf.constant(whole), size=224).numpy()) == window


def test_central_window_keeps_32_pixels_around_at_any_size():
    assert tuple(central_window(tf.constant([331, 331]), size=299).numpy()) == (16, 16, 299, 299)
    assert tuple(central_window(tf.constant([96, 96]), size=64, crop_padding=0).numpy()) == (0, 0, 96, 96)


@pytest.mark.parametrize("method", ["bicubic", "bilinear"])
@pytest.mark.parametrize("kind, within", [("jpeg", 6), ("png", 1)])
def test_eval_image_is_the_central_window_resized_and_normalised(kind, within, method, pictures):
    # 100 * 32 // 64 = 50, from (100 - 50 + 1) // 2 = 25 and (180 - 50 + 1) // 2 = 65.
    encoded = getattr(pictures, kind)(pictures.gradient(100, 180))
    image = eval_image(tf.constant(encoded), size=SIZE, method=method)
    assert image.shape == [SIZE, SIZE, 3] and image.dtype == tf.float32
    found = denormalised(image)
    np.testing.assert_allclose(found[..., 1], np.broadcast_to(levels(25, 50, 100)[:, None], [SIZE] * 2), atol=within)
    np.testing.assert_allclose(found[..., 0], np.broadcast_to(levels(65, 50, 180)[None], [SIZE] * 2), atol=within)
    np.testing.assert_allclose(found[..., 2], 128, atol=within)


def test_methods_differ_as_their_names_say(pictures):
    # From a step of 0 to 255 bicubic interpolation overshoots, bilinear does not.
    step = np.repeat(np.repeat(np.array([0, 255], np.uint8), 8)[None, :, None], 16, axis=0).repeat(3, axis=-1)
    encoded = tf.constant(pictures.png(step))
    bicubic, bilinear = (
        denormalised(eval_image(encoded, size=64, crop_padding=0, method=method)) for method in ("bicubic", "bilinear")
    )
    assert bicubic.max() > 260 and bicubic.min() < -5
    assert bilinear.max() <= 255.01 and bilinear.min() >= -0.01


def test_normalise():
    image = np.random.default_rng(0).integers(0, 256, [5, 7, 3], np.uint8)
    expected = (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(normalise(tf.constant(image)), expected, atol=2e-6)
    rounded = normalise(tf.constant(image), dtype=tf.bfloat16)
    assert rounded.dtype == tf.bfloat16
    # bfloat16 keeps 8 bits, so that half of 2**-7 of a value is lost at most; computed in it, it would be more.
    np.testing.assert_allclose(tf.cast(rounded, tf.float32), expected, rtol=2**-8, atol=2e-6)


def test_normalise_any_height():
    of_any = tf.function(normalise, input_signature=[tf.TensorSpec([None, 7, 3])])
    assert of_any(tf.zeros([4, 7, 3])).shape == [4, 7, 3]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_train_image_is_the_drawn_window(dtype, pictures):
    height, width = 240, 320
    encoded = tf.constant(pictures.jpeg(pictures.gradient(height, width)))
    mirrored = 0
    for number in range(12):
        seed = tf.constant([number, 9], dtype)
        image = train_image(encoded, seed, size=SIZE)
        assert image.shape == [SIZE, SIZE, 3] and image.dtype == tf.float32
        drawn = random_window(
            tf.constant([height, width]), tf.random.experimental.stateless_split(seed, 2)[0], size=SIZE
        ).numpy()
        found = window_of(image, height, width)
        mirrored += found[3] < 0
        np.testing.assert_allclose(np.abs(found), drawn, atol=2.5)
    assert 0 < mirrored < 12


def test_flip_can_be_left_out(pictures):
    encoded = tf.constant(pictures.jpeg(pictures.gradient(60, 80)))
    images = [train_image(encoded, tf.constant([number, 9]), size=SIZE, flip=False) for number in range(8)]
    assert all(window_of(image, 60, 80)[3] > 0 for image in images)


def test_half_of_the_pictures_are_mirrored_whatever_their_window(pictures):
    encoded = tf.constant(pictures.png(pictures.gradient(40, 40)))

    def drawn(number):
        seed = tf.stack([number, 1])
        window = random_window(tf.constant([40, 40]), tf.random.experimental.stateless_split(seed, 2)[0], size=4)
        image = train_image(encoded, seed, size=4)
        return image[0, 0, 0] > image[0, -1, 0], window

    mirrored, windows = next(iter(tf.data.Dataset.range(400).map(drawn).batch(400)))
    assert 160 <= np.count_nonzero(mirrored) <= 240  # 200, and 4 standard deviations of 10.
    y, x, tall, wide = np.array(windows).T
    for drawn_too in (y, x, tall, wide, wide / tall):
        # 4 standard deviations of a correlation of nothing, 1 / sqrt(400).
        assert abs(np.corrcoef(mirrored, drawn_too)[0, 1]) < 0.2


def test_same_seed_same_bits_in_any_pipeline(pictures):
    encoded = tf.constant(pictures.jpeg(pictures.gradient(60, 80)))
    seeds = tf.constant([[1, 2], [1, 2], [1, 3], [2, 2], [2**31 - 1, -(2**31)]], tf.int32)
    eager = [train_image(encoded, seed, size=SIZE).numpy() for seed in seeds]
    mapped = tf.data.Dataset.from_tensor_slices(seeds).map(
        lambda seed: train_image(encoded, seed, size=SIZE), num_parallel_calls=2
    )
    for one, other in zip(eager, mapped):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(eager[0], eager[1])
    assert len({image.tobytes() for image in eager}) == 4


def test_areas_and_aspects_of_windows():
    height, width = 375, 500
    y, x, tall, wide = windows([height, width], 500).T
    areas = tall * wide / (height * width)
    assert 0.08 <= areas.min() < 0.1 and 0.85 < areas.max() <= 1
    assert 0.25 < np.median(areas) < 0.4
    # A pixel more or less changes what was drawn.
    assert np.all((wide + 1) / tall >= 3 / 4) and np.all((wide - 1) / tall <= 4 / 3)
    assert (wide / tall).min() < 0.8 and (wide / tall).max() > 1.25
    assert y.min() >= 0 and x.min() >= 0 and np.all(y + tall <= height) and np.all(x + wide <= width)
    # The place is uniform in what is left: means of 1/2, and 4 standard deviations of sqrt(1 / 12 / 500) = 0.013.
    for begin, extent, whole in ((y, tall, height), (x, wide, width)):
        free = (whole - extent) > 20
        assert abs(np.mean(begin[free] / (whole - extent)[free]) - 0.5) < 0.052


def test_areas_and_aspects_asked_for():
    _, _, tall, wide = windows([400, 400], 100, area=(0.5, 0.6), aspect=(1.0, 1.1)).T
    assert np.all((tall * wide >= 0.5 * 400**2) & (tall * wide <= 0.6 * 400**2))
    assert np.all((wide / tall > 0.99) & (wide / tall < 1.11))


@pytest.mark.parametrize("whole", [[1, 300], [3000, 10]])
def test_a_picture_too_long_for_any_window_gives_the_central_one(whole):
    expected = central_window(tf.constant(whole), size=224).numpy()
    assert np.all(windows(whole, 5) == expected)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (900, 3), (2, 3)])
@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_tiny_and_long_pictures(shape, kind, pictures):
    encoded = tf.constant(getattr(pictures, kind)(np.full([*shape, 3], 128, np.uint8)))
    for image in (train_image(encoded, tf.constant([1, 2]), size=SIZE), eval_image(encoded, size=SIZE)):
        np.testing.assert_allclose(denormalised(image), np.full([SIZE, SIZE, 3], 128), atol=1.5)


def test_static_shape_and_dtype_in_a_pipeline(pictures):
    files = tf.data.Dataset.from_tensors(pictures.jpeg(pictures.gradient(20, 20)))
    train = files.map(lambda encoded: train_image(encoded, tf.constant([1, 2]), size=SIZE, dtype=tf.bfloat16))
    held_out = files.map(lambda encoded: eval_image(encoded, size=SIZE, dtype=tf.bfloat16))
    assert train.element_spec == held_out.element_spec == tf.TensorSpec([SIZE, SIZE, 3], tf.bfloat16)
    assert next(iter(train)).dtype == tf.bfloat16
