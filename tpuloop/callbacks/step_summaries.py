"""The event file of `tf.summary` calls inside a step."""

import functools
from typing import Any, Callable, Optional, Tuple

import tensorflow as tf
from tensorflow.python.ops import summary_ops_v2

_FLUSH_BY_ITSELF = 2**31 - 1  # Events, or milliseconds: never; the callback flushes.


class StepSummaries(tf.summary.SummaryWriter):
    """A writer that can be opened on one folder after another, and makes its file only for steps that write to it.

    A traced step holds on to the writer it was traced with. With an ordinary writer, which is gone once closed, the
    next `fit` would have to trace the step again, or would write to a writer that is not there. This one stays the
    same: its resource has a fixed name, and opening it puts another file behind that name.

    Args:
      name: of the resource, one for each writer of a process.
    """

    def __init__(self, name: str):
        self._name = name
        self._directory: Optional[str] = None
        self._first: Callable[[], Optional[bytes]] = lambda: None
        self._handle: Optional[tf.Tensor] = None
        self._wanted = False  # Whether a traced step writes to it.
        self._before: Tuple[Any, Any] = (None, None)

    def open(self, directory: str, *, first: Callable[[], Optional[bytes]] = lambda: None) -> None:
        """Later `tf.summary` calls go to a new event file in `directory`, as long as this is the default writer.

        Args:
          first: as for `EventFile`.
        """
        self.close()
        self._directory, self._first = directory, first
        if self._wanted:
            self._make_file()

    def make_default(self, *, step: tf.Variable) -> None:
        """`tf.summary` calls of this thread, and of steps traced from it, go here.

        Args:
          step: what they are filed under where neither the call nor the loop says another.
        """
        state = summary_ops_v2._summary_state
        if state.writer is not self:
            self._before, state.writer, state.step = (state.writer, state.step), self, step

    def end_default(self) -> None:
        """Undoes `make_default`, unless another writer has taken its place since."""
        state = summary_ops_v2._summary_state
        if state.writer is self:
            state.writer, state.step = self._before
        self._before = (None, None)

    @property
    def written_to_by_steps(self) -> bool:
        """Whether a step was traced that writes here."""
        return self._wanted

    @property
    def _resource(self) -> tf.Tensor:
        """What `tf.summary` asks its writer for, while a step with such a call is traced or runs eagerly."""
        if self._directory is None:
            raise RuntimeError(f"the summary writer {self._name!r} is closed: training is over")
        self._wanted = True
        if self._handle is None:
            self._make_file()
        return self._handle

    def _make_file(self) -> None:
        with tf.init_scope(), tf.device("CPU:0"):
            self._handle = tf.raw_ops.SummaryWriter(shared_name=self._name, container="")
            first = self._first()
            tf.raw_ops.CreateSummaryFileWriter(
                writer=self._handle,
                logdir=self._directory,
                max_queue=_FLUSH_BY_ITSELF,
                flush_millis=_FLUSH_BY_ITSELF,
                filename_suffix=".v2",
            )
            if first is not None:
                tf.raw_ops.ImportEvent(writer=self._handle, event=first)

    def init(self) -> None:
        """Nothing: the file is made when it is needed."""

    def flush(self) -> None:
        """What was written can be read afterwards."""
        self._on_file(tf.raw_ops.FlushSummaryWriter)

    def close(self) -> None:
        """Flushes and closes the file."""
        self._on_file(tf.raw_ops.FlushSummaryWriter)
        self._on_file(tf.raw_ops.CloseSummaryWriter)
        self._handle = self._directory = None

    def _on_file(self, operation: Callable[..., Any]) -> None:
        if self._handle is None:
            return
        try:
            with tf.device("CPU:0"):
                operation(writer=self._handle)
        except tf.errors.NotFoundError:
            self._handle = None  # `tf.keras.backend.clear_session()` has let go of it, and flushed it.


@functools.lru_cache(maxsize=None)
def step_summaries(name: str) -> StepSummaries:
    """The process's writer of that name: the same each time, so that traced steps stay right."""
    return StepSummaries(f"tpuloop_{name}")
