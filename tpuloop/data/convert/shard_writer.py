"""Writes one shard under a hidden name, and gives it its own when it is complete."""

import contextlib
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

import google_crc32c
import numpy as np

from tpuloop.data.records import files
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import ShardFile
from tpuloop.data.records.packing import pack
from tpuloop.paths import is_remote, join

UNFINISHED = ".writing"

_BUFFER_BYTES = 1 << 20


class CannotWrite(OSError):
    """A shard cannot be written, as on a full disk. Says which, and why, in one line."""


class ShardWriter:
    """Records into one file. Use it as a context manager; without `publish` nothing is left behind.

    Args:
      folder: of the shard.
      name: of the shard.
      examples_per_record: in each packed record but the last.
    """

    def __init__(self, *, folder: str, name: str, examples_per_record: int):
        self._path = join(folder, name)
        self._folder, self._name = folder, name
        # A process of its own that was left over by a killed conversion writes under another name.
        self._written = self._path if is_remote(folder) else join(folder, hidden_name(name))
        self._per_record = examples_per_record
        self._waiting: List[Mapping[str, np.ndarray]] = []  # Columns that make no full record yet.
        self._waiting_examples = 0
        self._frames: List[bytes] = []
        self._frames_bytes = 0
        self._records = self._examples = self._bytes = self._crc = 0
        self._file: Any = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # It tries to write what a full disk did not take.
                # An object store shows what was written so far when its file is closed; nothing lists it.
                self._file.close()
            with contextlib.suppress(FileNotFoundError):
                files.remove(self._written)

    def add_columns(self, columns: Mapping[str, np.ndarray]) -> None:
        """Adds examples: arrays [n, ...] by feature, in the features' order."""
        count = len(next(iter(columns.values())))
        if not count:
            return
        self._waiting.append(columns)
        self._waiting_examples += count
        if self._waiting_examples >= self._per_record:
            self._pack(whole_records=self._waiting_examples // self._per_record)

    def add_records(self, records: Sequence[bytes]) -> None:
        """Adds serialized examples, each a record."""
        for record in records:
            self._add_frame(record, examples=1)

    def complete(self) -> None:
        """Writes what is missing, to disk. Several writers are complete before the first publishes.

        Raises:
          CannotWrite: where the disk does not take it.
        """
        if self._waiting_examples:
            self._pack(whole_records=1)
        if not self._records:
            return
        try:
            self._flush()
            if not is_remote(self._folder):
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error

    def publish(self) -> Optional[ShardFile]:
        """Gives the complete file its name. None, and no file, where no example was added.

        Raises:
          CannotWrite: where it cannot have the name.
        """
        if self._file is None:
            return None
        try:
            self._file.close()
            if not is_remote(self._folder):
                os.replace(self._written, self._path)
                files.sync_folder(self._folder)
        except OSError as error:
            raise self._cannot_write(error) from error
        self._file = None
        return ShardFile(self._name, self._records, self._examples, self._bytes, self._crc)

    def _pack(self, *, whole_records: int) -> None:
        columns = _joined(self._waiting)
        self._waiting, count = [], self._waiting_examples
        taken = min(whole_records * self._per_record, count)
        for start in range(0, taken, self._per_record):
            stop = min(start + self._per_record, taken)
            part = {name: values[start:stop] for name, values in columns.items()}
            self._add_frame(pack(part), examples=stop - start)
        self._waiting_examples = count - taken
        if self._waiting_examples:
            self._waiting = [{name: values[taken:] for name, values in columns.items()}]

    def _add_frame(self, data: bytes, *, examples: int) -> None:
        framed = frame(data)
        self._frames.append(framed)
        self._frames_bytes += len(framed)
        self._records += 1
        self._examples += examples
        if self._frames_bytes >= _BUFFER_BYTES:
            try:
                self._flush()
            except OSError as error:
                raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> CannotWrite:
        return CannotWrite(f"{self._path} cannot be written: {error.strerror or error}")

    def _flush(self) -> None:
        data = b"".join(self._frames)
        self._frames, self._frames_bytes = [], 0
        if self._file is None:
            self._file = files.open_file(self._written, "wb")
        self._file.write(data)
        self._crc = google_crc32c.extend(self._crc, data)
        self._bytes += len(data)


def hidden_name(name: str) -> str:
    """What this process calls a file that is not complete."""
    return f".{name}.{os.getpid()}{UNFINISHED}"


def remove_unfinished(folder: str) -> None:
    """Deletes what a killed conversion left behind in a local folder."""
    if is_remote(folder):
        return
    for name in files.names_in(folder):
        if name.startswith(".") and name.endswith(UNFINISHED):
            files.remove(join(folder, name))


def _joined(parts: List[Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
    if len(parts) == 1:
        return parts[0]
    joined: Dict[str, np.ndarray] = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined
