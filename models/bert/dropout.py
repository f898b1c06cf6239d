"""Dropout whose seed is drawn apart from its mask, so that a mask can be made again."""

from typing import Any, Optional

import tensorflow as tf


class SeededLayer(tf.keras.__internal__.layers.BaseRandomLayer):
    """A layer that draws seeds from its Keras generator, and makes its masks with stateless operations."""

    def draw_seeds(self, count: int) -> tf.Tensor:
        """Seeds for `count` masks: integers of shape [count, 2], other ones at each call."""
        generator = self._random_generator
        seed = generator.make_seed_for_stateless_op()
        if seed is None:  # Keras's default: a generator without state of its own
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32, seed=generator.make_legacy_seed())
        return tf.random.experimental.stateless_split(seed, count)


def dropout(x: tf.Tensor, rate: float, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """`x` with a share `rate` of it set to 0 and the rest scaled by 1 / (1 - rate) (Srivastava et al. 2014).

    Args:
      x: of any shape and floating type.
      rate: from 0 up to but not including 1; taken to the next 1/65536.
      seed: integers of shape [2]; None (not training) changes nothing.
    """
    if seed is None or not rate:
        return x
    return tf.where(kept(tf.shape(x), x.shape[-1], rate, seed), x * scale(rate), tf.zeros([], x.dtype))


def kept(shape: tf.Tensor, last: int, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """Where dropout keeps values: booleans of `shape`, whose last dimension is `last`.

    Two come from each 32-bit number, half the work of drawing a float for each, and of the same share in every type.
    """
    dropped = _dropped(rate)
    half = (last + 1) // 2
    bits = tf.random.stateless_uniform(
        tf.concat([shape[:-1], [half]], axis=0), seed, minval=None, maxval=None, dtype=tf.int32
    )
    both = tf.concat([tf.bitwise.bitwise_and(bits, 0xFFFF) >= dropped, bits >= (dropped - 2**15) * 2**16], axis=-1)
    return both if last % 2 == 0 else both[..., :last]


def scale(rate: float) -> float:
    """What keeps the mean: one over the share that is kept."""
    return 1 / (1 - _dropped(rate) / 2**16)


def _dropped(rate: float) -> int:
    return min(round(rate * 2**16), 2**16 - 1)


def when_training(training: Any, then: Any, otherwise: Any) -> Any:
    """`then()` while training and else `otherwise()`; `training` is a bool, a scalar tensor, or None for Keras's."""
    if training is None:
        training = tf.keras.backend.learning_phase()
    training = tf.cast(training, tf.bool) if tf.is_tensor(training) else bool(training)
    return tf.__internal__.smart_cond.smart_cond(training, then, otherwise)
