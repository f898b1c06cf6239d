"""Loops that take turns: each runs for a slice of steps while the others wait."""

import threading
import time
from typing import Callable, Dict, List, Mapping, Optional

# Called by the work at the end of a slice; returns the steps of the next one, or 0 if there is none.
Pause = Callable[[], int]


class Lane:
    """Work in a thread of its own, which runs only inside `slice`.

    So a whole `fit` can be timed piece by piece while it runs, in between pieces of another: neither its start nor its
    end is measured, and a machine that becomes slow becomes so for all.

    Args:
      work: called once, in the thread, with the steps of the first slice and the way to wait for the next.
    """

    def __init__(self, work: Callable[[int, Pause], None]):
        self._work = work
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._steps = 0
        self._started = self._seconds = 0.0
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def slice(self, steps: int) -> float:
        """Runs `steps` steps and returns the seconds they took. An error of the work is raised here."""
        self._steps = steps
        self._go.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error
        return self._seconds

    def end(self) -> None:
        """Lets the work return."""
        self._steps = 0
        self._go.release()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work(self._wait(), self._pause)
        except BaseException as error:
            self._error = error
        finally:
            self._paused.release()

    def _pause(self) -> int:
        self._seconds = time.perf_counter() - self._started
        self._paused.release()
        return self._wait()

    def _wait(self) -> int:
        self._go.acquire()
        self._started = time.perf_counter()
        return self._steps


def steps_of_a_slice(lane: Lane, *, seconds: float, together: int) -> int:
    """The steps that take about so many seconds, a multiple of `together`."""
    fastest = min(lane.slice(together) for _ in range(2))
    return together * max(1, round(seconds / fastest))


def run_for(lane: Lane, *, seconds: float, together: int) -> float:
    """Runs a lane for some time, so many steps together, and returns its steps a second; 0 where there is no time."""
    steps, taken = 0, 0.0
    while taken < seconds:
        taken += lane.slice(together)
        steps += together
    return steps / taken if taken else 0.0


def take_turns(
    lanes: Mapping[str, Lane],
    *,
    steps: Mapping[str, int],
    repeats: int,
    rest: Callable[[], None],
    untimed_seconds: float = 0.0,
) -> Dict[str, List[float]]:
    """Runs every lane for a slice, one after the other, `repeats` times over.

    Args:
      steps: of a slice.
      rest: called before each slice.
      untimed_seconds: of each slice that do not count, for what a lane has made in advance while others ran.

    Returns:
      For each lane the seconds of a step in each repeat.
    """
    times: Dict[str, List[float]] = {name: [] for name in lanes}
    for repeat in range(repeats):
        # Back and forth, so that nobody always comes after the same one, whose data may still be read ahead.
        for name in list(lanes)[:: -1 if repeat % 2 else 1]:
            rest()
            run_for(lanes[name], seconds=untimed_seconds, together=max(1, steps[name] // 10))
            times[name].append(lanes[name].slice(steps[name]) / steps[name])
    return times
