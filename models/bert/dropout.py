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
      rate: from 0 up to but not including 1.
      seed: integers of shape [2]; None (not training) changes nothing.
    """
    if seed is None or not rate:
        return x
    # float32 under any policy: in bfloat16 there are too few numbers below 1 for the share to be right.
    kept = tf.random.stateless_uniform(tf.shape(x), seed) >= rate
    return tf.where(kept, x * (1 / (1 - rate)), tf.zeros([], x.dtype))


def when_training(training: Any, then: Any, otherwise: Any) -> Any:
    """`then()` while training and else `otherwise()`; `training` is a bool, a scalar tensor, or None for Keras's."""
    if training is None:
        training = tf.keras.backend.learning_phase()
    training = tf.cast(training, tf.bool) if tf.is_tensor(training) else bool(training)
    return tf.__internal__.smart_cond.smart_cond(training, then, otherwise)
