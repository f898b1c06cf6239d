"""How many steps one compiled call may run."""

import dataclasses
from typing import Iterable, Optional, Union

import numpy as np


def nearest_boundary(step: int, boundaries: Iterable[Optional[int]], *, last: int) -> int:
    """The first step at which the loop must be back in Python.

    Args:
      step: steps done so far.
      boundaries: the steps after which somebody must act; None and those not ahead of `step` do not count.
      last: the last step of the run; the answer is never beyond it.
    """
    ahead = [boundary for boundary in boundaries if boundary is not None and boundary > step]
    return min(ahead + [last])


def next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


@dataclasses.dataclass
class Pacer:
    """Chooses the length of compiled calls so that one takes about `target_seconds`.

    A call should be long enough that the way back to Python costs nothing, and short enough that progress, callbacks
    and a save before a preemption come in time.

    Attributes:
      setting: a number of steps, or "auto" to measure.
      target_seconds: what "auto" aims at.
      growth: the largest factor between two calls under "auto", so that one lucky measurement does no harm.
    """

    setting: Union[int, str] = "auto"
    target_seconds: float = 1.0
    growth: float = 10.0
    _steps: int = 1

    def steps(self) -> int:
        """The most steps the next call may run."""
        return self._steps if self.setting == "auto" else int(self.setting)

    def measured(self, step_seconds: np.ndarray) -> None:
        """Takes in the seconds of each step of the last call. The median, so that one slow step does not count."""
        if self.setting != "auto" or not len(step_seconds):
            return
        fitting = self.target_seconds / max(float(np.median(step_seconds)), 1e-9)
        self._steps = int(max(1, min(fitting, self._steps * self.growth)))
