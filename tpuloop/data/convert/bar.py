"""How far a conversion is: a bar on a terminal, plain lines elsewhere."""

import os
import time
from typing import IO, Any, Callable

_LINE_SECONDS = 10.0


class Bar:
    """Counts units of input. Use it as a context manager.

    Args:
      total: units in all.
      done: units that an earlier run finished.
      unit: what they are called, in the plural.
      stream: where to.
      clock: gives seconds, from any start.
    """

    def __init__(
        self, *, total: int, done: int, unit: str, stream: IO[str], clock: Callable[[], float] = time.monotonic
    ):
        self._total, self._unit, self._stream, self._clock = total, unit, stream, clock
        self._done = self._first = done
        self._started_at = self._shown_at = clock()
        self._bar: Any = None
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            from tqdm import tqdm

            kind = type("_Tqdm", (tqdm,), {"monitor_interval": 0})
            self._bar = kind(
                initial=done, total=total, file=stream, unit=f" {unit}", unit_scale=True, dynamic_ncols=True
            )

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, units: int) -> None:
        """Counts units that are done."""
        self._done += units
        if self._bar is not None:
            self._bar.update(units)
        elif self._clock() - self._shown_at >= _LINE_SECONDS:
            self._shown_at = self._clock()
            rate = (self._done - self._first) / (self._shown_at - self._started_at)
            self.say(f"{self._done:,} of {self._total:,} {self._unit} ({rate:,.0f} a second)")

    def say(self, text: str) -> None:
        """A line of its own."""
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)
