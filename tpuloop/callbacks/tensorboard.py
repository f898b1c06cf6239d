"""TensorBoard curves with every step in them."""

import os
import time
from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np
import tensorflow as tf

from tpuloop.callbacks.event_file import EventFile, session_start
from tpuloop.callbacks.step_counter import StepCounter
from tpuloop.callbacks.step_summaries import step_summaries
from tpuloop.engine.learning_rate import held_learning_rate, learning_rate_schedule
from tpuloop.engine.trace import StepTrace
from tpuloop.hooks import Callback
from tpuloop.paths import is_remote, normalised

_FLUSH_SECONDS = 2.0
_REMOTE_FLUSH_SECONDS = 30.0  # An upload each time, for which the loop waits.


class TensorBoardScalars(Callback):
    """Writes what each step reports, once a compiled call, and the results of evaluations.

    `directory/train` gets every scalar output of every step (the loss, its parts, the learning rate, the gradient
    norm), dated when the step ended, and the metrics that are known only at the end of a call. `directory/eval`
    gets each evaluation's results at the global step it followed. Names are the same in both, so that TensorBoard
    draws one chart of them. A run that goes on after step n has its points from step n + 1 on, and TensorBoard
    forgets those of an earlier attempt that lie beyond.

    While training, and evaluating in it, `tf.summary` calls of the user's own steps go to the same folders.

    In Keras's `model.fit` there is a point for each call of the batch hooks, with the logs Keras gives them, counted
    from the optimizer's iterations.

    Args:
      directory: of the event files; may be a `gs://` path.
      clock: gives seconds since the epoch.
    """

    def __init__(self, *, directory: str, clock: Callable[[], float] = time.time):
        super().__init__()
        directory = normalised(directory)
        self._clock = clock
        self._flush_seconds = _REMOTE_FLUSH_SECONDS if is_remote(directory) else _FLUSH_SECONDS
        self._train = _Folder(os.path.join(directory, "train"), name="train")
        self._eval = _Folder(os.path.join(directory, "eval"), name="eval")
        self._counter = StepCounter()
        self._per_step: Mapping[str, Any] = {}
        self._training = False
        self._flushed = 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        """Takes in the step the run goes on from; from here on `tf.summary` calls are recorded."""
        del logs
        self._counter = StepCounter(self._step_now())
        if self.loop is not None:
            self._begin()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """In Keras: batches count from 0 again. The first epoch's number may tell that earlier ones were trained."""
        del logs
        if self.loop is None and not self._training:
            self._counter.reached(max(self._counter.done, epoch * (self.params.get("steps") or 0)))
            self._begin()
        self._counter.epoch_begins()

    def on_steps_end(self, trace: StepTrace) -> None:
        """Writes the outputs of all steps of a call."""
        self._counter.reached(trace.last_step)
        columns = {name: trace.values(name) for name in trace.names}
        rate = _constant_learning_rate(self.model)
        if rate is not None:
            columns.setdefault("learning_rate", np.full(len(trace), rate))
        self._train.events.add_steps(
            list(columns), steps=trace.steps, wall_times=trace.ended, values=list(columns.values())
        )
        self._per_step = columns

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the metrics at the call's last step; hands all over every 2 seconds, to an object store every 30."""
        if self.loop is None:
            self._counter.batch_ended(batch)
        rest = {name: value for name, value in _scalars(logs).items() if name not in self._per_step}
        now = self._clock()
        if rest:
            self._train.events.add(rest, step=self._counter.done, wall_time=now)
        if now - self._flushed >= self._flush_seconds:
            self._flush(now)

    def on_test_begin(self, logs: Any = None) -> None:
        """`tf.summary` calls of the evaluation's steps are recorded apart from those of training."""
        del logs
        if self._training:
            self._eval.summaries.make_default(step=self._step_variable("_test_counter"))

    def on_test_end(self, logs: Any = None) -> None:
        """Writes the results of an evaluation; of one outside training too, at the loop's step."""
        step = self._counter.done if self._training else self._step_now()
        now = self._clock()
        self._eval.events.add(_scalars(logs), step=step, wall_time=now)
        if not self._training:
            self._eval.close()
            return
        self._eval.summaries.end_default()
        self._flush(now)

    def before_save(self) -> None:
        """Hands over the points of all steps that the checkpoint will hold: a run that goes on from it has them."""
        if self._training:
            self._flush(self._clock())

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the files."""
        del logs
        self.close()

    def close(self) -> None:
        """Closes the files, also after an error."""
        in_keras = self._training and self.loop is None
        self._training = False
        for folder in (self._eval, self._train):
            folder.close()
        if in_keras and self._train.summaries.written_to_by_steps:
            self.model.make_train_function(force=True)  # Keras would keep the one that writes to a closed file.
        if in_keras and self._eval.summaries.written_to_by_steps:
            self.model.make_test_function(force=True)

    def _begin(self) -> None:
        self._training, self._flushed = True, self._clock()
        for folder in (self._train, self._eval):
            folder.open(first_step=self._counter.done + 1)
        self._train.summaries.make_default(step=self._step_variable("_train_counter"))

    def _flush(self, now: float) -> None:
        self._flushed = now
        for folder in (self._train, self._eval):
            folder.events.flush()
            folder.summaries.flush()

    def _step_now(self) -> int:
        if self.loop is not None:
            return int(self.loop.step.numpy())
        return int(getattr(getattr(self.model, "optimizer", None), "iterations", 0))

    def _step_variable(self, keras_name: str) -> tf.Variable:
        return getattr(self.model, keras_name) if self.loop is None else self.loop.step


class _Folder:
    """The files of one curve folder: our scalars, and the `tf.summary` calls of steps if they have any.

    The file that is made first opens with the session's start.
    """

    def __init__(self, directory: str, *, name: str):
        self._directory = directory
        self._first_step: Optional[int] = None
        self.events = EventFile(directory, first=self._start)
        self.summaries = step_summaries(name)

    def open(self, *, first_step: int) -> None:
        self._first_step = first_step
        self.summaries.open(self._directory, first=self._start)

    def close(self) -> None:
        self.summaries.end_default()
        self.summaries.close()
        self.events.close()
        self._first_step = None

    def _start(self) -> Optional[bytes]:
        step, self._first_step = self._first_step, None
        return None if step is None else session_start(step)


def _scalars(logs: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    """The logs that are one number each."""
    values = {name: np.asarray(value) for name, value in (logs or {}).items()}
    return {name: float(value) for name, value in values.items() if value.ndim == 0 and value.dtype.kind in "fiub"}


def _constant_learning_rate(model: tf.keras.Model) -> Optional[float]:
    """The learning rate where it is a variable; a schedule's is an output of each step."""
    optimizer = getattr(model, "optimizer", None)
    rate = held_learning_rate(optimizer)
    if rate is None or learning_rate_schedule(optimizer) is not None:
        return None
    return float(tf.convert_to_tensor(rate))
