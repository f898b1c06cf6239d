"""Scalars of many steps as TensorBoard events, at about a microsecond a step."""

import logging
import os
import socket
import time
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.core.util.event_pb2 import Event, SessionLog

from tpuloop.errors import first_line
from tpuloop.paths import is_remote

logger = logging.getLogger("tpuloop")

# An object store has no appending: each flush uploads the file anew, so that a long run needs several.
_REMOTE_BYTES = 4 << 20
_RECORD_BYTES = 16  # Around each event.
# The number of a step is written as 5 bytes of 7 bits; this is the first number that needs them.
_FIVE_BYTES = 2**28
_STEP_BITS = np.arange(5) * 7
_MORE_FOLLOWS = np.array([128, 128, 128, 128, 0], np.uint8)


class EventFile:
    """One event file in a run's folder, made when the first event is written.

    In an object store a file ends when it has a few megabytes, and another begins. What cannot be written there is a
    warning, and is tried again with what follows while the file is open; at its end it is lost: curves are no reason
    to end a run.

    Args:
      directory: TensorBoard's folder of the run; anything TensorFlow's file systems can write to.
      first: gives a serialised event to write before all others, or None for none.
    """

    def __init__(self, directory: str, *, first: Callable[[], Optional[bytes]] = lambda: None):
        self._directory = directory
        self._first = first
        self._writer: Optional[tf.io.TFRecordWriter] = None
        self._bytes = 0  # In the file that is open.
        self._templates: Dict[Tuple[str, ...], _Template] = {}

    def add_steps(
        self, tags: Sequence[str], *, steps: np.ndarray, wall_times: np.ndarray, values: Sequence[np.ndarray]
    ) -> None:
        """One event for each step, which holds all tags.

        Args:
          steps, wall_times: shape [steps].
          values: for each tag, shape [steps].
        """
        key = tuple(tags)
        if key not in self._templates:
            self._templates[key] = _Template(key)
        write = self._open().write
        events = self._templates[key].filled(steps, wall_times, values)
        for event in events:
            write(event)
        self._bytes += sum(_RECORD_BYTES + len(event) for event in events[:1]) * len(events)

    def add(self, values: Mapping[str, float], *, step: int, wall_time: float) -> None:
        """One event."""
        event = Event(step=step, wall_time=wall_time)
        for tag, value in values.items():
            event.summary.value.add(tag=tag, simple_value=value)
        self._open().write(event.SerializeToString())

    def flush(self) -> None:
        """What was added can be read afterwards."""
        if self._writer is None:
            return
        if is_remote(self._directory) and self._bytes >= _REMOTE_BYTES:
            self.close()
        else:
            self._or_warn(self._writer.flush)

    def close(self) -> None:
        """Flushes and closes the file; adding more opens a new one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._or_warn(writer.close)

    def _or_warn(self, action: Callable[[], None]) -> None:
        try:
            action()
        except tf.errors.OpError as error:
            if not is_remote(self._directory):
                raise
            logger.warning("cannot write events to %s: %s", self._directory, first_line(error))

    def _open(self) -> tf.io.TFRecordWriter:
        if self._writer is None:
            first, self._bytes = self._first(), 0
            tf.io.gfile.makedirs(self._directory)
            now = time.time_ns()
            # Sorts behind a file that `tf.summary` makes in the same second: TensorBoard reads files in this order, and
            # its slower reader watches only the last for news.
            name = f"events.out.tfevents.{now // 10**9:010d}.{socket.gethostname()}.{os.getpid()}.scalars.{now}"
            self._writer = tf.io.TFRecordWriter(os.path.join(self._directory, name))
            self._writer.write(Event(wall_time=now / 1e9, file_version="brain.Event:2").SerializeToString())
            if first is not None:
                self._writer.write(first)
        return self._writer


def session_start(step: int) -> bytes:
    """The event that tells TensorBoard to forget what an earlier attempt wrote for `step` and later ones."""
    log = SessionLog(status=SessionLog.START)
    return Event(wall_time=time.time(), step=step, session_log=log).SerializeToString()


class _Template:
    """An event of some tags, serialised once and then only filled with numbers.

    Building each event as a protobuf message costs 4 us a step, of a step that may take 150. Here all events of a
    call are one NumPy array of bytes: [constant | time | step | constant | value | constant | value ...]. The step's
    number always takes 5 bytes, which every reader takes; protobuf itself would write it in fewer.
    """

    def __init__(self, tags: Sequence[str]):
        event = Event(wall_time=1.0, step=_FIVE_BYTES)
        ends = []
        for tag in tags:
            event.summary.value.add(tag=tag, simple_value=1.0)
            ends.append(event.summary.ByteSize())
        serialised = event.SerializeToString()
        # Fields stand in the order of their numbers: time, step, summary; and in a value the tag, then the float.
        self._value_ends = [len(serialised) - ends[-1] + end for end in ends]
        self._bytes = np.frombuffer(serialised, np.uint8)

    def filled(self, steps: np.ndarray, wall_times: np.ndarray, values: Sequence[np.ndarray]) -> Sequence[bytes]:
        """The serialised event of each step."""
        events = np.tile(self._bytes, (len(steps), 1))
        events[:, 1:9] = _bytes_of(wall_times, "<f8")
        events[:, 10:15] = (np.asarray(steps, np.int64)[:, None] >> _STEP_BITS & 127).astype(np.uint8) | _MORE_FOLLOWS
        for end, column in zip(self._value_ends, values):
            events[:, end - 4 : end] = _bytes_of(column, "<f4")
        joined, size = events.tobytes(), len(self._bytes)
        return [joined[start : start + size] for start in range(0, len(joined), size)]


def _bytes_of(column: np.ndarray, dtype: str) -> np.ndarray:
    """Shape [n] as [n, bytes of the dtype]."""
    return np.ascontiguousarray(column, dtype).view(np.uint8).reshape(len(column), -1)
