"""The callbacks of a run: their order, the steps they name, and how they are closed."""

import logging
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import tensorflow as tf

from tpuloop import keras_callbacks
from tpuloop.engine.trace import StepTrace

logger = logging.getLogger("tpuloop")

# As `fit` takes them: one, several or none.
CallbacksLike = Union[None, tf.keras.callbacks.Callback, Iterable[tf.keras.callbacks.Callback]]


class Callback(tf.keras.callbacks.Callback):
    """A Keras callback that may also name its steps, see every step, and is always closed.

    In `TrainLoop.fit`, `self.loop` is the loop; in Keras's `model.fit` it stays None and only Keras's hooks run. All
    hooks run on the host, in eager mode, between compiled calls.
    """

    loop: Any = None

    def set_loop(self, loop: Any) -> None:
        """Called once before `on_train_begin`."""
        self.loop = loop

    def next_boundary(self, step: int) -> Optional[int]:
        """The next global step after `step` at whose end this callback must be called, or None.

        The loop never runs past it. Called before every compiled call.
        """
        del step
        return None

    def on_steps_end(self, trace: StepTrace) -> None:
        """Called after every compiled call, before `on_train_batch_end`, with what happened in each of its steps."""

    def before_save(self) -> None:
        """Called before a checkpoint is written: what belongs to its steps must outlive the process as it does."""

    def close(self) -> None:
        """Called last, also after an error: the place to let go of files, threads and terminals."""


class Hooks:
    """Calls callbacks in their order, all with the same logs dict.

    Not Keras's `CallbackList`, which hands out copies of the logs to some callbacks and not to others, so that what
    one adds (`lr`) others do not see.
    """

    def __init__(self, callbacks: CallbacksLike):
        callbacks = [callbacks] if isinstance(callbacks, tf.keras.callbacks.Callback) else list(callbacks or ())
        for callback in callbacks:
            keras_callbacks.refuse_unusable(callback)
        self._history = next((c for c in callbacks if isinstance(c, tf.keras.callbacks.History)), None)
        if self._history is None:
            self._history = tf.keras.callbacks.History()
            callbacks.append(self._history)
        self.callbacks: List[tf.keras.callbacks.Callback] = callbacks

    @property
    def history(self) -> tf.keras.callbacks.History:
        """Keras's record of the epochs."""
        return self._history

    @property
    def halts_on_nonfinite(self) -> bool:
        """Whether a callback ends the run at the step whose loss is not finite."""
        return any(isinstance(callback, tf.keras.callbacks.TerminateOnNaN) for callback in self.callbacks)

    @property
    def counts_every_step(self) -> bool:
        """Whether a callback reads Keras's step counter inside the compiled call."""
        return any(keras_callbacks.records_by_step(callback) for callback in self.callbacks)

    @property
    def sees_every_batch(self) -> List[str]:
        """The classes of callbacks with hooks for batches that cannot say for which: not Keras's, nor `Callback`s."""
        return [
            type(callback).__name__
            for callback in self.callbacks
            if not isinstance(callback, Callback) and keras_callbacks.has_batch_hooks_of_its_own(callback)
        ]

    def attach(self, loop: Any, model: tf.keras.Model, params: Mapping[str, Any]) -> None:
        """Tells every callback its model, Keras's parameters of the run, and the loop."""
        for callback in self.callbacks:
            callback.set_model(model)
            callback.set_params(dict(params))
            if isinstance(callback, Callback):
                callback.set_loop(loop)

    def boundaries(self, step: int) -> Sequence[Optional[int]]:
        """The next step that each callback names."""
        own = [callback.next_boundary(step) for callback in self.callbacks if isinstance(callback, Callback)]
        return own + [keras_callbacks.next_boundary(callback, step) for callback in self.callbacks]

    def call(self, hook: str, *args: Any) -> None:
        """Calls one Keras hook of every callback."""
        for callback in self.callbacks:
            getattr(callback, hook)(*args)

    def on_train_batch_begin(self, batch: int, *, step: int) -> None:
        """`batch` counts in the epoch, `step` in the run; both are the first of the call, from 0."""
        for callback in self.callbacks:
            keras_callbacks.before_call(callback, step)
            callback.on_train_batch_begin(batch, {})

    def on_train_batch_end(self, batch: int, logs: Dict[str, float], *, trace: StepTrace) -> None:
        """`batch` is the last of the call, counted in the epoch from 0."""
        for callback in self.callbacks:
            keras_callbacks.after_call(callback, trace.last_step, batch=batch, steps=len(trace))
            callback.on_train_batch_end(batch, logs)

    def on_steps_end(self, trace: StepTrace) -> None:
        """Hands the trace of a call to those who ask for it."""
        for callback in self.callbacks:
            if isinstance(callback, Callback):
                callback.on_steps_end(trace)

    def before_save(self) -> None:
        """Tells every callback that a checkpoint is about to be written."""
        for callback in self.callbacks:
            if isinstance(callback, Callback):
                callback.before_save()

    def close(self, *, failed: bool) -> None:
        """Closes every callback. After a failure, an error while closing is only logged: the failure is raised."""
        first: Optional[Exception] = None
        for callback in self.callbacks:
            try:
                keras_callbacks.release(callback)
                if isinstance(callback, Callback):
                    callback.close()
            except Exception as error:  # The other callbacks must be closed as well.
                logger.error("%s failed while closing: %s", type(callback).__name__, error)
                first = first or error
        if first is not None and not failed:
            raise first
