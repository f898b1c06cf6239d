"""Scaled dot-product attention of several heads (Vaswani et al. 2017, arXiv:1706.03762)."""

import math
from typing import Optional

import tensorflow as tf

from .dropout import kept, scale


@tf.keras.utils.register_keras_serializable("tpuloop")
class PaddingBias(tf.keras.layers.Layer):
    """From an input mask [batch, length] (1: a token, 0: padding) to what is added to scores, [batch, 1, 1, length]."""

    def call(self, input_mask):
        # As in the original release: finite in bfloat16, and exp of it is 0 beside any other score.
        return (1.0 - tf.cast(input_mask[:, tf.newaxis, tf.newaxis, :], self.compute_dtype)) * -10000.0


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    *,
    length: int,
    heads: int,
    rate: float,
    seed: Optional[tf.Tensor],
) -> tf.Tensor:
    """Each head's values, weighted by a softmax over keys.

    Args:
      query, key, value: [batch * length, width], of one floating type.
      bias: [batch, 1, 1, length], added to the scores.
      length: of a sequence.
      heads: each has width / heads columns.
      rate, seed: dropout of the weights, as `dropout` takes them.

    Returns:
      [batch * length, width] in the type of `query`; the softmax is float32.
    """
    width = query.shape[-1]

    def split(x):
        return tf.transpose(tf.reshape(x, [-1, length, heads, width // heads]), [0, 2, 1, 3])

    # The scale goes to the queries, which are fewer than the scores.
    scores = tf.matmul(split(query * (1 / math.sqrt(width // heads))), split(key), transpose_b=True)
    weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32) + tf.cast(bias, tf.float32)), query.dtype)
    if seed is not None and rate:
        weights = tf.where(kept(tf.shape(weights), length, rate, seed), weights, tf.zeros([], weights.dtype))
        value = value * scale(rate)  # Of dropout; again the smaller factor.
    mixed = tf.matmul(weights, split(value))
    return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, width])
