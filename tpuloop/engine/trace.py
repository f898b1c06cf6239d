"""What happened in each step of one call of the compiled loop."""

import dataclasses
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class StepTrace:
    """The steps of one call, as the loop recorded them on the host.

    Attributes:
      first_step: the global number of the call's first step; the first step of a run is step 1.
      totals: for each output of the step, the sum over all replicas of weight x value; float32 of shape [steps].
      weights: for each output, the sum over all replicas of the weights; float32 of shape [steps].
      asked: when the step asked for its batch, in seconds since the epoch; float64 of shape [steps].
      came: when the batch was there.
      ended: when the step had ended, its variables updated.
      added: the outputs that are sums of others' means: which ones, by name.
    """

    first_step: int
    totals: Dict[str, np.ndarray]
    weights: Dict[str, np.ndarray]
    asked: np.ndarray
    came: np.ndarray
    ended: np.ndarray
    added: Mapping[str, Tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def last_step(self) -> int:
        """The global number of the call's last step."""
        return self.first_step + len(self) - 1

    @property
    def steps(self) -> np.ndarray:
        """The global numbers of the steps; int64 of shape [steps]."""
        return np.arange(self.first_step, self.first_step + len(self), dtype=np.int64)

    @property
    def names(self) -> List[str]:
        """The outputs: sums first, each before its parts."""
        return [*self.added, *self.totals]

    def values(self, name: str) -> np.ndarray:
        """The global mean of one output at each step; NaN where nothing counted.

        A part of a sum for which nothing counted adds nothing, as it adds nothing to the gradient.
        """
        if name in self.added:
            parts = np.array([self.values(part) for part in self.added[name]])
            counted = np.array([self.weights[part] > 0 for part in self.added[name]])
            return np.where(counted.any(axis=0), np.sum(parts, axis=0, where=counted), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.totals[name] / self.weights[name]

    @classmethod
    def from_records(
        cls,
        *,
        first_step: int,
        names: Sequence[str],
        sums: np.ndarray,
        clock: np.ndarray,
        ended: float,
        added: Optional[Mapping[str, Tuple[str, ...]]] = None,
    ) -> "StepTrace":
        """From what the compiled loop returns.

        Args:
          names: the outputs, in the order of `sums`.
          sums: shape [steps, 2 x outputs]: all totals, then all weights.
          clock: shape [steps, 2]: asked, came.
          ended: when the last step ended. A step before it ended when the next asked for its batch.
          added: as the attribute.
        """
        count = len(names)
        return cls(
            first_step=first_step,
            totals={name: sums[:, i] for i, name in enumerate(names)},
            weights={name: sums[:, count + i] for i, name in enumerate(names)},
            asked=clock[:, 0],
            came=clock[:, 1],
            ended=np.append(clock[1:, 0], ended)[: len(clock)],
            added=added or {},
        )


class RunningMeans:
    """The global means of outputs over many calls: a sum of totals over a sum of weights, in float64."""

    def __init__(self):
        self._totals: Dict[str, float] = {}
        self._weights: Dict[str, float] = {}
        self._added: Mapping[str, Tuple[str, ...]] = {}

    def add(self, trace: StepTrace) -> None:
        """Adds all steps of `trace`."""
        self._added = trace.added
        for name, totals in trace.totals.items():
            self._totals[name] = self._totals.get(name, 0.0) + float(np.sum(totals, dtype=np.float64))
            weights = float(np.sum(trace.weights[name], dtype=np.float64))
            self._weights[name] = self._weights.get(name, 0.0) + weights

    def reset(self) -> None:
        """Forgets everything, as at the start of an epoch."""
        self._totals.clear()
        self._weights.clear()

    def result(self) -> Dict[str, float]:
        """The mean of each output; NaN where nothing counted."""
        means = {
            name: total / self._weights[name] if self._weights[name] else float("nan")
            for name, total in self._totals.items()
        }
        sums = {name: self._sum(means, parts) for name, parts in self._added.items()} if means else {}
        return {**sums, **means}

    def _sum(self, means: Mapping[str, float], parts: Sequence[str]) -> float:
        counted = [means[part] for part in parts if self._weights[part]]
        return sum(counted) if counted else float("nan")


class LastValues:
    """The outputs of the last step, used as `RunningMeans` is: for outputs that are running means themselves."""

    def __init__(self):
        self._values: Dict[str, float] = {}

    def add(self, trace: StepTrace) -> None:
        """Takes in the last step of `trace`."""
        if len(trace):
            self._values = {name: float(trace.values(name)[-1]) for name in trace.names}

    def reset(self) -> None:
        """Forgets everything, as at the start of an epoch."""
        self._values = {}

    def result(self) -> Dict[str, float]:
        """The value of each output."""
        return dict(self._values)
