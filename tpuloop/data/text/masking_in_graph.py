"""Masking in a graph of TensorFlow's: at read time, so that every epoch can have masks of its own.

The same numbers as `masking.masked`, to the bit.
"""

from typing import Dict

import tensorflow as tf

from tpuloop.data.splitmix_in_graph import mixed, right, uint64, xor
from tpuloop.data.text.masking import KEPT, KEY_SHIFT, MASKED, NEVER, POSITION_BITS, REPLACEMENTS, Masking


def mask_in_graph(batch: Dict[str, tf.Tensor], *, seeds: tf.Tensor, masking: Masking) -> Dict[str, tf.Tensor]:
    """A batch with its tokens masked: elementwise operations and one top-k over the whole of it, and no loop.

    Args:
      batch: `input_ids` and `input_mask`, int32 of static shape [batch, sequence_length] (the batch size may be
        unknown), and whatever else.
      seeds: int32 or int64 [batch, 2]: the mask of an example is a function of its two numbers, such as
        (seed + epoch, example number).
      masking: how.

    Returns:
      As `masking.masked`: `input_ids` with tokens replaced, `masked_lm_positions`, `masked_lm_ids` (int32) and
      `masked_lm_weights` (float32) of shape [batch, max_predictions], and what else there was.

    Raises:
      UsageError: where `max_predictions` is more than the sequence length.
    """
    ids, mask = batch["input_ids"], batch["input_mask"]
    length = ids.shape[1]
    if length is None:
        raise ValueError("input_ids has no static sequence length: give it one with tf.ensure_shape")
    predictions = tf.constant(masking.predictions(length))
    seeds = tf.cast(tf.cast(seeds, tf.int64), tf.uint64)
    key = mixed(xor(mixed(seeds[:, 0]), seeds[:, 1]))
    position = tf.range(length, dtype=tf.int64)
    counter = tf.cast(position, tf.uint64)
    # A shift right and then left leaves the upper bits, which are positive as int64 since one of them went.
    drawn = tf.cast(right(mixed(key[:, tf.newaxis] + counter), KEY_SHIFT), tf.int64) * 2**POSITION_BITS
    special = tf.reduce_any(ids[..., tf.newaxis] == tf.constant(masking.special.ids, ids.dtype), axis=-1)
    present = tf.not_equal(mask, 0)
    allowed = present & ~special
    order = tf.where(allowed, drawn + position, tf.constant(NEVER, tf.int64))
    count = tf.minimum(tf.gather(predictions, _count(present)), _count(allowed))[:, tf.newaxis]

    lowest = -tf.math.top_k(-order, masking.max_predictions).values
    chosen = tf.range(masking.max_predictions) < count
    positions = tf.where(chosen, tf.cast(lowest % 2**POSITION_BITS, tf.int32), length)
    positions = -tf.math.top_k(-positions, masking.max_predictions).values
    positions = tf.where(chosen, positions, 0)

    last = tf.reduce_max(tf.where(chosen, lowest, tf.constant(-1, tf.int64)), axis=1, keepdims=True)
    number = mixed(xor(key, uint64(REPLACEMENTS))[:, tf.newaxis] + counter)
    low, high = tf.bitwise.bitwise_and(number, uint64(2**32 - 1)), right(number, 32)
    tenth = tf.cast(right(low * uint64(10), 32), tf.int32)
    random = tf.cast(right(high * uint64(masking.vocab_size), 32), ids.dtype)
    mask_id = tf.constant(masking.special.mask, ids.dtype)
    replacement = tf.where(tenth < MASKED, mask_id, tf.where(tenth < MASKED + KEPT, ids, random))
    return {
        **batch,
        "input_ids": tf.where(order <= last, replacement, ids),
        "masked_lm_positions": positions,
        "masked_lm_ids": tf.where(chosen, tf.gather(ids, positions, batch_dims=1), 0),
        "masked_lm_weights": tf.cast(chosen, tf.float32),
    }


def _count(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(values, tf.int32), axis=1)
