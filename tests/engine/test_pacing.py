"""How many steps a call may run: arithmetic, with the seconds passed in."""

import numpy as np
import pytest

from tpuloop.engine.pacing import Pacer, nearest_boundary, next_multiple


@pytest.mark.parametrize(
    "step, boundaries, last, expected",
    [
        (0, [], 10, 10),
        (0, [4, 7], 10, 4),
        (4, [4, 7], 10, 7),  # One that is reached already does not count.
        (7, [4, 7, None], 10, 10),
        (0, [25], 10, 10),
    ],
)
def test_nearest_boundary(step, boundaries, last, expected):
    assert nearest_boundary(step, boundaries, last=last) == expected


@pytest.mark.parametrize("step, every, expected", [(0, 5, 5), (4, 5, 5), (5, 5, 10), (6, 1, 7)])
def test_next_multiple(step, every, expected):
    assert next_multiple(step, every) == expected


def test_a_number_stays_what_it_is():
    pacer = Pacer(7)
    pacer.measured(np.array([1e-6] * 7))
    assert pacer.steps() == 7


def test_auto_grows_tenfold_at_most_until_a_call_takes_the_target():
    pacer = Pacer("auto", target_seconds=1.0, growth=10.0)
    lengths = []
    for _ in range(5):
        lengths.append(pacer.steps())
        pacer.measured(np.full(pacer.steps(), 0.002))
    assert lengths == [1, 10, 100, 500, 500]


def test_auto_shrinks_at_once_and_never_below_one():
    pacer = Pacer("auto", target_seconds=1.0)
    pacer.measured(np.array([0.01]))
    assert pacer.steps() == 10
    pacer.measured(np.array([30.0]))
    assert pacer.steps() == 1


def test_one_slow_step_does_not_count():
    pacer = Pacer("auto", target_seconds=1.0)
    pacer.measured(np.array([0.1]))
    pacer.measured(np.array([0.05] * 9 + [60.0]))
    assert pacer.steps() == 20


def test_steps_without_duration_and_calls_without_steps():
    pacer = Pacer("auto")
    pacer.measured(np.array([0.0]))
    assert pacer.steps() == 10
    pacer.measured(np.array([]))
    assert pacer.steps() == 10
