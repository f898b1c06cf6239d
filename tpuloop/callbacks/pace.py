"""How fast steps go and when they will be done. Pure arithmetic; time is passed in."""

import collections
from typing import Deque, Optional, Tuple


class Pace:
    """The rate of the latest steps, and the time left.

    Args:
      window: seconds of step time that the rate looks back on; one call at least, whatever it took.
    """

    def __init__(self, *, window: float):
        self._window = window
        self._calls: Deque[Tuple[int, float]] = collections.deque()
        self._steps = 0
        self._seconds = 0.0
        self._since: Optional[float] = None
        self._steps_since = 0

    def add(self, steps: int, seconds: float, *, now: float) -> None:
        """A call ended `now` whose `steps` steps took `seconds`, from the start of the first to the end of the last."""
        if self._since is None:
            self._since = now - seconds
        self._steps_since += steps
        self._calls.append((steps, seconds))
        self._steps += steps
        self._seconds += seconds
        while len(self._calls) > 1 and self._seconds - self._calls[0][1] >= self._window:
            old_steps, old_seconds = self._calls.popleft()
            self._steps -= old_steps
            self._seconds -= old_seconds

    @property
    def steps_per_second(self) -> Optional[float]:
        """Steps over the time of the steps alone: no evaluation, save or compilation in it. None before the first."""
        return self._steps / self._seconds if self._seconds > 0 else None

    def seconds_left(self, steps: int, *, now: float) -> Optional[float]:
        """When `steps` more steps will be done, if the run goes on as it did since its first step, pauses included."""
        if self._since is None or not self._steps_since or now <= self._since:
            return None
        return steps * (now - self._since) / self._steps_since
