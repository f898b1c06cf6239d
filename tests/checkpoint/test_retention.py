"""Which checkpoints stay."""

import pytest

from tpuloop.checkpoint.retention import to_delete


@pytest.mark.parametrize(
    "steps, keep, expected",
    [([], 3, []), ([5], 1, []), ([5, 10, 15], 3, []), ([15, 5, 20, 10], 2, [5, 10]), ([9, 100, 10], 1, [9, 10])],
)
def test_the_newest_stay(steps, keep, expected):
    assert to_delete(steps, keep=keep) == expected
