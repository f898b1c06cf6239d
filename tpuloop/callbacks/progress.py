"""How far a run is: a bar on a terminal or in a notebook, plain lines in a log file."""

import importlib.util
import os
import sys
import time
from typing import IO, Any, Callable, Mapping, Optional

from tpuloop.callbacks.pace import Pace
from tpuloop.callbacks.progress_line import evaluation_line, step_line
from tpuloop.callbacks.step_counter import StepCounter
from tpuloop.engine.trace import StepTrace
from tpuloop.hooks import Callback

_REDRAW_SECONDS = 0.1


class Progress(Callback):
    """Shows the step, the rate, the time left, the loss and the metrics in one line.

    On a terminal and in a notebook the line is one bar, redrawn after compiled calls. Anywhere else it is printed after
    the first call, then every `interval` seconds, and after the last step, without control characters. Results of an
    evaluation get a line of their own.

    The rate counts the time of the steps alone, from the step trace; the time left counts pauses too. In Keras's
    `model.fit` it works from the batch hooks, which know of no trace: there the rate counts the time between them.

    Args:
      stream: where to; `sys.stderr` at the time training begins, if None.
      interval: seconds between two plain lines, and the time that the rate looks back on.
      clock: gives seconds, from any start.

    Raises:
      ValueError: for a negative interval.
    """

    def __init__(
        self, *, stream: Optional[IO[str]] = None, interval: float = 10.0, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__()
        if not interval >= 0:
            raise ValueError(f"interval must be 0 seconds or more; it is {interval!r}")
        self._supports_tf_logs = (
            True  # Keras then hands over its tensors, and only those that are shown are waited for.
        )
        self._stream = stream
        self._interval = interval
        self._clock = clock
        self._display: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the display, at the step the run begins with."""
        del logs
        self._counter = StepCounter(0 if self.loop is None else int(self.loop.step.numpy()))
        self._pace = Pace(window=self._interval)
        self._total = self._total_steps()
        self._started = False  # Whether an epoch has begun.
        self._compiled = False  # Whether Keras has run its first call, which compiles.
        self._resumed_at: Optional[float] = None  # In Keras: when the steps now running began.
        self._shown_step: Optional[int] = None
        self._shown_at = float("-inf")
        self._values: Mapping[str, Any] = {}
        self._display = _display(sys.stderr if self._stream is None else self._stream)
        self._display.begin(self._counter.done, self._total)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """In Keras: takes in where the epochs start, and leaves the time between them out of the rate."""
        del logs
        steps = self.params.get("steps")
        if self.loop is None and not self._started and steps:
            self._counter.reached(epoch * steps)  # initial_epoch
        self._started = True
        self._counter.epoch_begins()
        self._resumed_at = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """In Keras: the clock of the steps starts, unless it runs from the call before."""
        del batch, logs
        if self.loop is None and self._resumed_at is None:
            self._resumed_at = self._clock()

    def on_steps_end(self, trace: StepTrace) -> None:
        """Takes the time of a call's steps from its trace."""
        self._counter.reached(trace.last_step)
        self._pace.add(len(trace), float(trace.ended[-1] - trace.asked[0]), now=self._clock())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Shows the call's last step, if it is time."""
        now = self._clock()
        if self.loop is None:
            before = self._counter.done
            self._counter.batch_ended(batch)
            if self._compiled and self._resumed_at is not None:
                self._pace.add(self._counter.done - before, now - self._resumed_at, now=now)
            self._compiled = True
            self._resumed_at = now
        self._values = logs or {}
        every = _REDRAW_SECONDS if self._display.is_bar else self._interval
        if now - self._shown_at >= every or self._counter.done == self._total:
            self._show(now)

    def on_test_end(self, logs: Any = None) -> None:
        """Prints the results of an evaluation, in training or alone."""
        self._resumed_at = None
        alone = self._display is None
        if not alone and self._display.is_bar:
            self._show(self._clock())  # The bar stays below, and should not say an older step.
        display = _display(sys.stderr if self._stream is None else self._stream, bar=False) if alone else self._display
        display.say(evaluation_line(step=self._done(), values=logs or {}))

    def on_train_end(self, logs: Any = None) -> None:
        """Shows the last step, also of a run that ended early, and closes the display."""
        del logs
        if self._display is not None and self._counter.done != self._shown_step and self._values:
            self._show(self._clock())
        self.close()

    def close(self) -> None:
        """Leaves the cursor at the start of a line of its own, also after an error."""
        display, self._display = self._display, None
        if display is not None:
            display.end()

    def _done(self) -> int:
        if self._display is not None:
            return self._counter.done
        if self.loop is not None:
            return int(self.loop.step.numpy())
        return int(getattr(getattr(self.model, "optimizer", None), "iterations", 0))

    def _total_steps(self) -> Optional[int]:
        if self.loop is not None:
            return self.params.get("total_steps")
        steps, epochs = self.params.get("steps"), self.params.get("epochs")
        return steps * epochs if steps and epochs else None

    def _show(self, now: float) -> None:
        step = self._counter.done
        left = None if self._total is None or self._total <= step else self._total - step
        text = step_line(
            step=step,
            total=self._total,
            steps_per_second=self._pace.steps_per_second,
            global_batch=self.params.get("global_batch"),
            seconds_left=None if left is None else self._pace.seconds_left(left, now=now),
            values=self._values,
        )
        self._display.show(step, text)
        self._shown_step, self._shown_at = step, now


class _Lines:
    """One plain line after the other."""

    is_bar = False

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def begin(self, step: int, total: Optional[int]) -> None:
        pass

    def show(self, step: int, text: str) -> None:
        del step
        self.say(text)

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        pass


class _Bar:
    """One bar of tqdm's; what else there is to say is printed above it."""

    is_bar = True

    def __init__(self, stream: Optional[IO[str]], *, notebook: bool):
        self._stream = stream
        self._notebook = notebook

    def begin(self, step: int, total: Optional[int]) -> None:
        if self._notebook:
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm

        # No monitor thread: the bar is redrawn when there is news. The text follows the bar, cut to the window's width.
        kind = type("_Tqdm", (tqdm,), {"monitor_interval": 0})
        size = {"dynamic_ncols": True} if self._notebook or _has_size(self._stream) else {"ncols": 79, "nrows": 24}
        text = "{desc}" if total is None else "{percentage:3.0f}%|{bar}| {desc}"
        self._bar = kind(initial=step, total=total, file=self._stream, bar_format=text, mininterval=0, **size)
        self.show(step, step_line_at_start(step, total))

    def show(self, step: int, text: str) -> None:
        self._bar.n = step
        self._bar.set_description_str(text, refresh=True)

    def say(self, text: str) -> None:
        self._bar.write(text, file=self._stream)

    def end(self) -> None:
        self._bar.close()


def step_line_at_start(step: int, total: Optional[int]) -> str:
    """What a bar says until the first call is over."""
    at = step_line(step=step, total=total, steps_per_second=None, global_batch=None, seconds_left=None, values={})
    return f"{at}  compiling"


def _display(stream: IO[str], *, bar: bool = True) -> Any:
    if bar and _in_notebook():
        widgets = importlib.util.find_spec("ipywidgets") is not None
        return _Bar(None if widgets else stream, notebook=widgets)
    if bar and stream.isatty() and os.environ.get("TERM") != "dumb":
        return _Bar(stream, notebook=False)
    return _Lines(stream)


def _has_size(stream: Any) -> bool:
    """Whether the terminal knows its size; one without a window of its own says 0, and tqdm would show nothing."""
    try:
        return min(os.get_terminal_size(stream.fileno())) > 0
    except (AttributeError, OSError, ValueError):
        return False


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config
