"""Which units of input go into which shard, and which examples are held out. Functions of numbers alone. Pure."""

import dataclasses
from typing import Optional, Tuple

import numpy as np

from tpuloop.data.splitmix import after
from tpuloop.errors import UsageError

TRAIN, TEST = "train", "test"

_BYTES_PER_SHARD = 16 << 20  # Of input. Short enough for a bar that moves and a kill that costs little.
_FEW, _MANY = 4, 1024
_FEW_UNITS = 64


@dataclasses.dataclass(frozen=True)
class Job:
    """One shard's work: the units from `start` to before `stop`."""

    index: int
    start: int
    stop: int


def shard_count(*, units: int, input_bytes: int, shards: Optional[int], per_shard: Optional[int]) -> int:
    """How many shards to write; never more than there are units.

    By default one for 16 MiB of input, at least 4 where those hold 64 units each, and at most 1024.

    Raises:
      UsageError: where both ways to say it are used, or it is more than the units.
    """
    if shards is not None and per_shard is not None:
        raise UsageError("--shards and --examples_per_shard say the same thing: give one of them")
    if per_shard is not None:
        return -(-units // per_shard)
    if shards is not None:
        if shards > units:
            raise UsageError(f"--shards={shards}: the input has only {units}: give at most that many")
        return shards
    count = min(_MANY, max(-(-input_bytes // _BYTES_PER_SHARD), min(_FEW, units // _FEW_UNITS)))
    return max(1, min(count, units))


def jobs(*, units: int, count: int, per_shard: Optional[int] = None) -> Tuple[Job, ...]:
    """All units once, in order, in `count` ranges of lengths that differ by at most one.

    With `per_shard` all have that length, except perhaps the last.
    """
    if per_shard is not None:
        bounds = [min(index * per_shard, units) for index in range(count + 1)]
    else:
        bounds = [units * index // count for index in range(count + 1)]
    return tuple(Job(index, *bounds[index : index + 2]) for index in range(count))


def held_out(numbers: np.ndarray, *, seed: int, fraction: float) -> np.ndarray:
    """Which examples belong to the test split: bool [n], each a function of (seed, number) alone.

    Args:
      numbers: int64 [n].
      seed: at least 0.
      fraction: about this share of all numbers is held out.
    """
    drawn = after(numbers.astype(np.uint64) ^ after(np.array([seed], np.uint64)))
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction
