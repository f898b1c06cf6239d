"""At which steps Keras's own callbacks must act, when a compiled call runs many steps.

Keras calls batch hooks once a call with the last step of it; callbacks that count calls or compare step numbers then
miss theirs. The loop asks here where to stop, and sets the counters right. Read off Keras 2.9; each function names the
attributes it relies on.
"""

import time
from typing import Optional

import tensorflow as tf

from tpuloop.engine.pacing import next_multiple
from tpuloop.errors import UsageError

_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def refuse_unusable(callback: object) -> None:
    """Refuses what cannot work in a loop.

    Raises:
      ValueError: with what to use instead.
    """
    if not isinstance(callback, tf.keras.callbacks.Callback):
        raise UsageError(f"{callback!r} is not a callback: it must derive from tf.keras.callbacks.Callback")
    if isinstance(callback, tf.keras.callbacks.BackupAndRestore):
        raise UsageError(
            "BackupAndRestore keeps a second state beside the loop's own and goes back to the start of an epoch: "
            "give TrainLoop a workdir instead, and a run resumes at the step it stopped at"
        )
    if isinstance(callback, tf.keras.callbacks.ProgbarLogger):
        raise UsageError("ProgbarLogger counts calls as steps: use tpuloop.Progress instead")


def next_boundary(callback: tf.keras.callbacks.Callback, step: int) -> Optional[int]:
    """The next step after `step` (steps done) at whose end `callback` must be called, or None."""
    if isinstance(callback, tf.keras.callbacks.ModelCheckpoint) and callback.save_freq != "epoch":
        return next_multiple(step, callback.save_freq)
    if isinstance(callback, tf.keras.callbacks.TensorBoard) and callback._should_trace:
        # It starts a profile before batch `_start_batch` and ends it after batch `_stop_batch`, counted from 1.
        edges = [edge for edge in (callback._start_batch - 1, callback._stop_batch) if edge > step]
        return min(edges, default=None)
    return None


def records_by_step(callback: tf.keras.callbacks.Callback) -> bool:
    """Whether it lets the step's own `tf.summary` calls through at multiples of a step count."""
    return isinstance(callback, tf.keras.callbacks.TensorBoard) and callback.update_freq != "epoch"


def has_batch_hooks_of_its_own(callback: tf.keras.callbacks.Callback) -> bool:
    """Whether a user wrote hooks that are to run for every batch; Keras's own are told their steps here."""
    modules = [getattr(callback, hook).__module__ or "" for hook in _BATCH_HOOKS]
    return not all(module.split(".")[0] in ("keras", "tensorflow") for module in modules)


def before_call(callback: tf.keras.callbacks.Callback, step: int) -> None:
    """Before `on_train_batch_begin` of a call that starts after `step` steps."""
    if isinstance(callback, tf.keras.callbacks.TensorBoard):
        callback._global_train_batch = step  # The hook adds 1.
    if isinstance(callback, tf.keras.callbacks.ModelCheckpoint) and callback.save_freq != "epoch":
        callback._batches_seen_since_last_saving = step % callback.save_freq  # Also where a run goes on.


def after_call(callback: tf.keras.callbacks.Callback, step: int, *, batch: int, steps: int) -> None:
    """Before `on_train_batch_end(batch)` of a call of `steps` steps that ended after `step` steps."""
    if isinstance(callback, tf.keras.callbacks.TensorBoard):
        callback._global_train_batch = step
        # With `write_steps_per_second` it takes the time since then for that of one step.
        now = time.time()
        callback._batch_start_time = now - (now - callback._batch_start_time) / steps
    if isinstance(callback, tf.keras.callbacks.ModelCheckpoint):
        # It adds up the distance to the batch it saw last, which is one short for the first call of a run.
        callback._last_batch_seen = batch - steps


def release(callback: tf.keras.callbacks.Callback) -> None:
    """Lets go of what a stock callback holds when a run ended before its time. Keras itself would leave it open."""
    if isinstance(callback, tf.keras.callbacks.CSVLogger) and getattr(callback, "csv_file", None) is not None:
        callback.csv_file.close()
    if isinstance(callback, tf.keras.callbacks.TensorBoard):
        while callback._prev_summary_state:  # Two, where it ended in an evaluation.
            callback._pop_writer()
        if callback._is_tracing:
            callback._stop_profiler(save=False)
        callback._close_writers()
