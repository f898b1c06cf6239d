"""What a model is given of a photograph: the crops of the ImageNet recipes, resized and normalised.

Nothing here keeps a random state: the same example with the same seed gives the same bits.
"""

from typing import Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.images.decode import decode_whole, decode_window

# Per channel, of ImageNet's pixels from 0 to 1, as red, green, blue. From fb.resnet.torch (2016), and since then in
# torchvision, the TPU reference ResNet and flax; published weights expect them.
MEAN = (0.485, 0.456, 0.406)
STANDARD_DEVIATION = (0.229, 0.224, 0.225)

# Szegedy et al. 2014 (arXiv:1409.4842), section 6: the share of the picture's area, and width / height.
AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)

# Pixels around the evaluation's crop, of a picture resized so that its shorter side is size + 32: 224 of 256 since
# Krizhevsky et al. 2012. The TPU reference ResNet (tensorflow/tpu, resnet_preprocessing.py) adds the same at any size.
CROP_PADDING = 32

# Draws before the sampler gives up, as in the TPU reference ResNet.
_ATTEMPTS = 10


def train_image(
    encoded: tf.Tensor,
    seed: tf.Tensor,
    *,
    size: int,
    area: Tuple[float, float] = AREA,
    aspect: Tuple[float, float] = ASPECT,
    flip: bool = True,
    method: str = tf.image.ResizeMethod.BICUBIC,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """A random part of a picture, half of the time mirrored.

    Args:
      encoded: the bytes of a file, a string scalar; see `decode_window`.
      seed: of this example in this epoch, int32 or int64 of shape [2].
      size: height and width of the result in pixels.
      area: the least and the largest share of the picture's area that the part takes.
      aspect: the least and the largest width / height of the part, before it is resized to a square.
      flip: whether to mirror it left to right with probability 1/2.
      method: "bicubic" or "bilinear", a `tf.image.ResizeMethod`.
      dtype: of the result, `tf.float32` or `tf.bfloat16` (half the bytes on the way to the accelerator).

    Returns:
      [size, size, 3], as `normalise` gives it.
    """
    seeds = tf.random.experimental.stateless_split(seed, 2)
    image = decode_window(encoded, lambda whole: random_window(whole, seeds[0], size=size, area=area, aspect=aspect))
    if flip:  # Before it is resized to float32: fewer bytes to move.
        image = tf.image.stateless_random_flip_left_right(image, seeds[1])
    return normalise(_resized(image, size=size, method=method), dtype=dtype)


def eval_image(
    encoded: tf.Tensor,
    *,
    size: int,
    crop_padding: int = CROP_PADDING,
    method: str = tf.image.ResizeMethod.BICUBIC,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """The middle of a picture, always the same; see `central_window`.

    Args:
      crop_padding: how many pixels more than `size` the picture's shorter side counts for.
      encoded, size, method, dtype: as for `train_image`.

    Returns:
      [size, size, 3], as `normalise` gives it.
    """
    image = decode_window(encoded, lambda whole: central_window(whole, size=size, crop_padding=crop_padding))
    return normalise(_resized(image, size=size, method=method), dtype=dtype)


def whole_image(
    encoded: tf.Tensor,
    *,
    size: int,
    method: str = tf.image.ResizeMethod.BICUBIC,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """All of a picture as a square, whatever its own aspect; otherwise as `eval_image`."""
    return normalise(_resized(decode_whole(encoded), size=size, method=method), dtype=dtype)


def random_window(
    whole: tf.Tensor,
    seed: tf.Tensor,
    *,
    size: int,
    area: Tuple[float, float] = AREA,
    aspect: Tuple[float, float] = ASPECT,
) -> tf.Tensor:
    """A random part, as TensorFlow's sampler for Inception draws it: the aspect uniformly, then the height, the place.

    Not as torchvision does, which draws the area uniformly: here small parts are more frequent (the median of the area
    of a 4:3 picture is 0.3), as for the published TPU results. Those asked that a tenth of the picture be covered,
    which made 0.1 the least area; here it is the 0.08 of the paper. A picture so long that no part of it fits gives
    the evaluation's crop.

    Args:
      whole: the picture's height and width, int32 of shape [2].
      seed: int32 or int64 of shape [2].
      size, area, aspect: as for `train_image`.

    Returns:
      int32 [y, x, height, width].
    """
    sampled = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([whole, [3]], axis=0),
        bounding_boxes=tf.zeros([1, 0, 4]),
        seed=seed,
        min_object_covered=0.0,
        aspect_ratio_range=aspect,
        area_range=area,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    extent = sampled.size[:2]
    # The sampler gives the whole picture where it has given up.
    return tf.cond(
        tf.reduce_all(extent == whole),
        lambda: central_window(whole, size=size),
        lambda: tf.concat([sampled.begin[:2], extent], axis=0),
    )


def central_window(whole: tf.Tensor, *, size: int, crop_padding: int = CROP_PADDING) -> tf.Tensor:
    """The middle square of size / (size + crop_padding) of the shorter side: int32 [y, x, height, width]."""
    # In integers, so that it is exact; at least a pixel.
    side = tf.maximum(1, tf.reduce_min(whole) * size // (size + crop_padding))
    return tf.concat([(whole - side + 1) // 2, [side, side]], axis=0)


def normalise(image: tf.Tensor, *, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Values from 0 to 255 to about mean 0 and standard deviation 1: (value / 255 - MEAN) / STANDARD_DEVIATION.

    Args:
      image: [height, width, 3] of any numeric dtype, red, green and blue, with a static width.
      dtype: of the result; what is computed is computed in float32.
    """
    height, width, _ = image.shape
    # Whole rows at once: TensorFlow takes ten times as long to broadcast over a last dimension of 3.
    scale = np.tile(1 / (255 * np.array(STANDARD_DEVIATION)), width).astype(np.float32)
    offset = np.tile(-np.array(MEAN) / STANDARD_DEVIATION, width).astype(np.float32)
    rows = tf.reshape(tf.cast(image, tf.float32), [-1, 3 * width])
    return tf.reshape(tf.cast(rows * scale + offset, dtype), [-1 if height is None else height, width, 3])


def _resized(image: tf.Tensor, *, size: int, method: str) -> tf.Tensor:
    image = tf.image.resize(image, [size, size], method=method)
    return tf.ensure_shape(image, [size, size, 3])
