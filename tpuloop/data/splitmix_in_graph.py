"""`splitmix` in a graph of TensorFlow's: the same numbers, to the bit."""

import tensorflow as tf

from tpuloop.data import splitmix


def mixed(counters: tf.Tensor) -> tf.Tensor:
    """`splitmix.mixed` of integers of any type, as uint64 of the same shape."""
    value = (tf.cast(counters, tf.uint64) + uint64(1)) * uint64(splitmix.STEP)
    value = xor(value, right(value, 30)) * uint64(splitmix.FIRST)
    value = xor(value, right(value, 27)) * uint64(splitmix.SECOND)
    return xor(value, right(value, 31))


def uint64(value: int) -> tf.Tensor:
    """A constant: `value` modulo 2**64."""
    return tf.constant(value % 2**64, tf.uint64)


def right(value: tf.Tensor, bits: int) -> tf.Tensor:
    """uint64 shifted by some bits to the right."""
    return tf.bitwise.right_shift(value, uint64(bits))


def xor(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The bits in which two differ; the shapes broadcast."""
    return tf.bitwise.bitwise_xor(one, other)
