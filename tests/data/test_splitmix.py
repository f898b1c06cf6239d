"""SplitMix64 in Python, NumPy and TensorFlow: the same numbers, and those of its authors."""

import numpy as np
import tensorflow as tf

from tpuloop.data import splitmix_in_graph
from tpuloop.data.splitmix import Draws, after, mixed, mixed_array


def test_the_numbers_are_those_published():
    # The first outputs from the state 1234567, as printed by Vigna's splitmix64.c; and the first one from the state 0.
    assert mixed(0) == 0xE220A8397B1DCDAF
    step = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + number * step) % 2**64 for number in range(3)], np.uint64)
    assert after(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_arrays_and_graphs_have_the_numbers_of_integers():
    counters = np.array([-(2**63), -1, 0, 1, 2**62, 2**63 - 1])
    expected = [mixed(int(counter)) for counter in counters]
    assert mixed_array(counters).tolist() == expected
    assert tf.function(splitmix_in_graph.mixed)(tf.constant(counters)).numpy().tolist() == expected
    assert mixed_array(np.int64(-7)).shape == () and int(mixed_array(np.int64(-7))) == mixed(-7)


def test_draws():
    draws = Draws(3, 7)
    counts = np.bincount([draws.below(10) for _ in range(10_000)], minlength=10)
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.9  # Chi-squared with 9 degrees of freedom: beyond it 1 in 1000.
    assert [Draws(3, 7).below(2**60)] == [Draws(3, 7).below(2**60)]
    assert len({Draws(*key).below(2**60) for key in ((3, 7), (7, 3), (3, 8), (4, 7), (-3, 7))}) == 5
    assert not any(draws.chance(0) for _ in range(100)) and all(draws.chance(1) for _ in range(100))
