"""Which units go into which shard, and which examples are held out: functions of numbers alone."""

import numpy as np
import pytest

from tpuloop.data.convert.plan import Job, held_out, jobs, shard_count
from tpuloop.errors import UsageError


def count(units, mebibytes=0, shards=None, per_shard=None):
    return shard_count(units=units, input_bytes=mebibytes << 20, shards=shards, per_shard=per_shard)


def test_shards_by_default():
    assert [count(units) for units in (1, 63, 127, 128, 255, 256, 10**6)] == [1, 1, 1, 2, 3, 4, 4]
    assert [count(10**6, size) for size in (63, 64, 65, 160, 10**6)] == [4, 4, 5, 10, 1024]
    assert count(3, 10**6) == 3


def test_shards_as_asked_for():
    assert count(10, shards=7) == 7 and count(10, per_shard=4) == 3 and count(10, per_shard=99) == 1
    with pytest.raises(UsageError, match="give one of them"):
        count(10, shards=1, per_shard=1)
    with pytest.raises(UsageError, match="--shards=11: the input has only 10"):
        count(10, shards=11)


def test_jobs_hold_all_units_once():
    assert jobs(units=10, count=4) == (Job(0, 0, 2), Job(1, 2, 5), Job(2, 5, 7), Job(3, 7, 10))
    assert jobs(units=10, count=3, per_shard=4) == (Job(0, 0, 4), Job(1, 4, 8), Job(2, 8, 10))


def test_held_out_is_a_function_of_seed_and_number():
    numbers = np.arange(100_000)
    out = held_out(numbers, seed=1, fraction=0.1)
    # The spread of a binomial of that size is 95.
    assert abs(int(out.sum()) - 10_000) < 400
    np.testing.assert_array_equal(held_out(numbers[777:900], seed=1, fraction=0.1), out[777:900])
    assert abs(int((out & held_out(numbers, seed=2, fraction=0.1)).sum()) - 1000) < 150
    # More of them hold all of fewer.
    assert held_out(numbers, seed=1, fraction=0.2)[out].all()
    assert not held_out(numbers, seed=1, fraction=0.0).any()
    # Worked out with Python's integers: a conversion that goes on with another version relies on it.
    assert np.flatnonzero(out[:100]).tolist() == [28, 31, 51, 68, 71, 84, 90, 92]
