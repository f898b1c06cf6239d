"""Augmentation of small pictures that are stored as arrays, such as digits or CIFAR."""

import tensorflow as tf


def random_crop_and_flip(image: tf.Tensor, seed: tf.Tensor, *, padding: int = 4, flip: bool = True) -> tf.Tensor:
    """Moves a picture by up to `padding` pixels each way, and mirrors it half of the time (arXiv:1512.03385, 4.2).

    Args:
      image: one picture of any dtype, [height, width, channels] with a static shape.
      seed: of this example in this epoch, int32 or int64 of shape [2]; the same gives the same picture.
      padding: zeros around the picture, from which one of its old size is cut; 0 leaves it in place.
      flip: whether to mirror left to right with probability 1/2; not for digits or letters.

    Returns:
      The same shape and dtype.

    Raises:
      ValueError: for a shape that is not known, or a negative padding.
    """
    if image.shape.rank != 3 or not image.shape.is_fully_defined():
        raise ValueError(f"a picture must have a static shape [height, width, channels]; it is {image.shape}")
    if padding < 0:
        raise ValueError(f"padding must be at least 0; it is {padding}")
    seeds = tf.random.experimental.stateless_split(seed, 2)
    padded = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
    image = tf.image.stateless_random_crop(padded, image.shape, seed=seeds[0])
    return tf.image.stateless_random_flip_left_right(image, seed=seeds[1]) if flip else image
