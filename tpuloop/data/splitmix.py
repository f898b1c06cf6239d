"""Random numbers as functions of a key, in integer arithmetic: the same on every machine and in every process.

SplitMix64, whose finishing step spreads every bit of a counter over all bits (Steele, Lea, Flood 2014).
"""

from typing import Any

import numpy as np

# The numbers of the generator, for `splitmix_in_graph` too.
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 2**64


def mixed(counter: int) -> int:
    """A number below 2**64 that looks random, for any integer: from the state 0, the output of that number."""
    value = (counter + 1) * STEP % _BITS
    value = (value ^ value >> 30) * FIRST % _BITS
    value = (value ^ value >> 27) * SECOND % _BITS
    return value ^ value >> 31


def mixed_array(counters: Any) -> np.ndarray:
    """`mixed` of every number of an integer array, as uint64 of the same shape."""
    # Arrays even of one number, since NumPy warns when a scalar wraps around, which is meant here.
    counters = np.asarray(counters)
    states = np.atleast_1d(counters).astype(np.uint64) * np.uint64(STEP)
    return after(states).reshape(counters.shape)


def after(states: np.ndarray) -> np.ndarray:
    """The generator's first output from each of the states, uint64 of any shape but []; the same shape."""
    value = states + np.uint64(STEP)
    value = (value ^ value >> np.uint64(30)) * np.uint64(FIRST)
    value = (value ^ value >> np.uint64(27)) * np.uint64(SECOND)
    return value ^ value >> np.uint64(31)


class Draws:
    """Random numbers one after another, from a key such as (seed, document number)."""

    def __init__(self, *key: int):
        self._state = 0
        for part in key:
            self._state = mixed(self._state ^ part % _BITS)

    def below(self, bound: int) -> int:
        """One of 0 to bound - 1, each as likely as the other to 1 in 2**64 / bound."""
        self._state = (self._state + 1) % _BITS
        return mixed(self._state) * bound // _BITS

    def chance(self, share: float) -> bool:
        """True in `share` of all draws."""
        return self.below(2**53) < share * 2**53
