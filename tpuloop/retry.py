"""Trying again what may go better the next time."""

import dataclasses
import time
from typing import Callable, Iterator, Tuple, Type, TypeVar

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True)
class Retry:
    """How often to try, and how long to wait in between.

    Attributes:
      attempts: tries in all.
      first_wait: seconds before the second try.
      factor: by which each wait is longer than the one before.
      longest_wait: seconds.
    """

    attempts: int = 3
    first_wait: float = 0.5
    factor: float = 2.0
    longest_wait: float = 30.0

    def waits(self) -> Iterator[float]:
        """The seconds to wait after each try but the last."""
        for number in range(self.attempts - 1):
            yield min(self.first_wait * self.factor**number, self.longest_wait)

    def call(
        self,
        action: Callable[[], _Result],
        *,
        on: Tuple[Type[Exception], ...],
        sleep: Callable[[float], None] = time.sleep,
    ) -> _Result:
        """What `action` returns, or raises at last. Only errors of the kinds `on` are worth another try."""
        for wait in self.waits():
            try:
                return action()
            except on:
                sleep(wait)
        return action()


ONCE = Retry(attempts=1)
