"""Masked language modelling: which tokens are hidden, and what stands in their place (arXiv:1810.04805, 3.1 and A.1).

15 % of a sequence's tokens are to be predicted. In 80 % of these places there is [MASK], in 10 % a random token, and
in 10 % the token itself. The same in NumPy here and in a graph of TensorFlow's in `masking_in_graph`, to the bit:
integers only, and a mask is a function of its example's seed.
"""

import dataclasses
import fractions
from typing import Any, Mapping, Optional

import numpy as np

from tpuloop.data.splitmix import mixed_array
from tpuloop.data.text.sequences import Example
from tpuloop.data.text.special import SpecialTokens
from tpuloop.errors import UsageError

# How a random number below 2**64 becomes the key of a position: its upper bits with the position in the lowest 16.
# Sorted keys are then positions in random order, none like another, and not negative as int64.
POSITION_BITS = 16
KEY_SHIFT = 17
NEVER = 2**63 - 1
# What tells the random numbers of replacements from those of positions.
REPLACEMENTS = 0x5DEECE66D
# Of ten.
MASKED, KEPT = 8, 1


@dataclasses.dataclass(frozen=True)
class Masking:
    """How to mask.

    Attributes:
      vocab_size: random tokens are drawn from all ids below this, as in the original release.
      max_predictions: places to predict at most, which is also the static length of what describes them.
      rate: the share of a sequence's tokens, special tokens counted, padding not, that is to be predicted: rounded to
        the nearest number of tokens (halves to even), at least one.
      special: tokens never to be predicted.
    """

    vocab_size: int
    max_predictions: int
    rate: float = 0.15
    special: SpecialTokens = SpecialTokens()

    def __post_init__(self) -> None:
        if not max(self.special.ids) < self.vocab_size < 2**31:
            raise UsageError(f"vocab_size={self.vocab_size}: give more than the special tokens' {self.special.ids}")
        if self.max_predictions < 1:
            raise UsageError(f"max_predictions={self.max_predictions}: give at least 1")
        if not 0 < self.rate <= 1:
            raise UsageError(f"the masking rate is {self.rate}: give a share of the tokens above 0, such as 0.15")

    @classmethod
    def of_converted(
        cls, text: Mapping[str, Any], *, rate: float = 0.15, max_predictions: Optional[int] = None
    ) -> "Masking":
        """Masking at read time for text that `tpuloop data convert` made, by `made["text"]` of its manifest."""
        if max_predictions is None:
            max_predictions = default_predictions(text["sequence_length"], rate=rate)
        special = SpecialTokens(*text["special_ids"])
        return cls(vocab_size=text["vocab_size"], max_predictions=max_predictions, rate=rate, special=special)

    def predictions(self, sequence_length: int) -> np.ndarray:
        """How many places to predict of 0, 1, ... tokens: int32 of shape [sequence_length + 1].

        Raises:
          UsageError: where `max_predictions` is more than `sequence_length`.
        """
        if self.max_predictions > sequence_length:
            raise UsageError(
                f"max_predictions={self.max_predictions} is more than sequence_length={sequence_length}: "
                f"give about {default_predictions(sequence_length, rate=self.rate)}"
            )
        rate = fractions.Fraction(str(self.rate))  # Of floats, 0.15 x 10 is 1.5 only by luck.
        counts = [min(self.max_predictions, max(1, round(rate * length))) for length in range(1, sequence_length + 1)]
        return np.array([0, *counts], np.int32)


def default_predictions(sequence_length: int, *, rate: float = 0.15) -> int:
    """`max_predictions` that holds what the rate asks for, such as 20 for 128 tokens."""
    return max(1, -int(-fractions.Fraction(str(rate)) * sequence_length // 1))


def masked(batch: Example, *, seeds: np.ndarray, masking: Masking) -> Example:
    """A batch with its tokens masked, once for all.

    Args:
      batch: `input_ids` and `input_mask`, int32 of shape [batch, sequence_length], and whatever else.
      seeds: int [batch, 2]: the mask of an example is a function of its two numbers, such as (seed, example number).
      masking: how.

    Returns:
      The same with tokens of `input_ids` replaced, and with `masked_lm_positions` (int32, in ascending order),
      `masked_lm_ids` (int32, the tokens that were there) and `masked_lm_weights` (float32, 1 for a place to predict),
      each of shape [batch, max_predictions]; 0 where an example has fewer places.

    Raises:
      UsageError: where `max_predictions` is more than the sequence length.
    """
    ids, mask = batch["input_ids"], batch["input_mask"]
    length = ids.shape[1]
    predictions = masking.predictions(length)
    key = mixed_array(mixed_array(seeds[:, 0].astype(np.int64)) ^ seeds[:, 1].astype(np.int64).astype(np.uint64))
    position = np.arange(length, dtype=np.uint64)
    drawn = mixed_array(key[:, None] + position) >> np.uint64(KEY_SHIFT) << np.uint64(POSITION_BITS)
    allowed = (mask != 0) & ~np.isin(ids, masking.special.ids)
    order = np.where(allowed, (drawn | position).astype(np.int64), NEVER)
    count = np.minimum(predictions[np.sum(mask != 0, axis=1)], np.sum(allowed, axis=1))

    # The places with the `count` lowest keys, in ascending order.
    lowest = np.sort(order, axis=1)[:, : masking.max_predictions]
    weights = np.arange(masking.max_predictions) < count[:, None]
    positions = np.where(weights, lowest & (2**POSITION_BITS - 1), length)
    positions = np.sort(positions, axis=1)
    positions = np.where(weights, positions, 0)

    last = np.where(weights, lowest, -1).max(axis=1)
    number = mixed_array((key ^ np.uint64(REPLACEMENTS))[:, None] + position)
    low, high = number & np.uint64(2**32 - 1), number >> np.uint64(32)
    tenth = (low * np.uint64(10) >> np.uint64(32)).astype(np.int32)
    random = (high * np.uint64(masking.vocab_size) >> np.uint64(32)).astype(np.int32)
    replacement = np.where(tenth < MASKED, np.int32(masking.special.mask), np.where(tenth < MASKED + KEPT, ids, random))
    return {
        **batch,
        "input_ids": np.where(order <= last[:, None], replacement, ids).astype(np.int32),
        "masked_lm_positions": positions.astype(np.int32),
        "masked_lm_ids": np.where(weights, np.take_along_axis(ids, positions, axis=1), 0).astype(np.int32),
        "masked_lm_weights": weights.astype(np.float32),
    }
