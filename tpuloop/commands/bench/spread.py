"""Medians and quartiles. Pure."""

import dataclasses
import statistics
from typing import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Spread:
    """The middle half of some values."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Median and quartiles, interpolated between values."""
        ordered = sorted(values)
        if len(ordered) == 1:
            return cls(ordered[0], ordered[0], ordered[0])
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        return cls(low, statistics.median(ordered), high)


def paired_ratios(values: Sequence[float], others: Sequence[float]) -> Spread:
    """How many times longer than `others` the `values` took, each compared with the one of the same repeat.

    A machine that slows down for a while slows both, and the ratio stays.
    """
    return Spread.of(value / other for value, other in zip(values, others))
