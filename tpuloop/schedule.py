"""When a run ends, evaluates and counts an epoch."""

import dataclasses
from typing import Optional

from tpuloop.counts import check_count
from tpuloop.data.feed import Feed
from tpuloop.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The ends of a run and of its parts, all counted in steps from the run's start.

    Attributes:
      steps: the step to reach, or None while only epochs are known.
      epochs: the epoch to reach, or None.
      steps_per_epoch: or None where an epoch ends with the data.
      eval_every: steps between evaluations, or None for the end of each epoch.

    Raises:
      ValueError: naming the first that makes no sense.
    """

    steps: Optional[int] = None
    epochs: Optional[int] = None
    steps_per_epoch: Optional[int] = None
    eval_every: Optional[int] = None

    def __post_init__(self):
        for name in ("steps", "epochs", "steps_per_epoch", "eval_every"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_count(name, value, or_else=", or None"))

    @property
    def by_pass(self) -> bool:
        """Whether the run is counted in epochs, which by default are passes over the data."""
        return self.epochs is not None or self.steps is None

    def for_data(self, feed: Feed) -> "Schedule":
        """The schedule with what the data tells filled in.

        Raises:
          ValueError: for steps and epochs given both, or epochs of endless data without a length.
        """
        if self.steps is not None and self.epochs is not None:
            raise UsageError(f"give steps or epochs, not both: they are {self.steps} and {self.epochs}")
        if self.steps is not None:
            per_epoch = self.steps_per_epoch or feed.steps_per_epoch or self.eval_every
            return dataclasses.replace(self, steps_per_epoch=per_epoch)
        epochs = 1 if self.epochs is None else self.epochs
        per_epoch = self.steps_per_epoch or feed.steps_per_epoch
        if per_epoch is None and feed.endless:
            raise UsageError("the data never ends, so an epoch has no end: give steps, or steps_per_epoch")
        steps = None if per_epoch is None else per_epoch * epochs
        return dataclasses.replace(self, steps=steps, epochs=epochs, steps_per_epoch=per_epoch)
