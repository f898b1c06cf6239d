"""What a conversion has finished so far, in its folder, so that the same command can go on after a kill."""

import dataclasses
import json
import os
from typing import Any, Dict, List, Mapping, Optional

from tpuloop.data.records import files
from tpuloop.data.records.manifest import ShardFile
from tpuloop.errors import UsageError
from tpuloop.paths import is_remote, join

FILE_NAME = ".conversion.jsonl"


@dataclasses.dataclass(frozen=True)
class Finished:
    """One job that is done.

    Attributes:
      index: of the job.
      shards: the file that it wrote into each split; a split that got no example has none.
      bad: units that were left out.
    """

    index: int
    shards: Mapping[str, ShardFile]
    bad: int = 0


class Journal:
    """A line that says what is converted, and one for each finished job. Use it as a context manager.

    Args:
      folder: of the conversion; exists.
      identity: plain data that is the same only for the same conversion.

    Raises:
      UsageError: where another conversion is in the folder, or at work on it now.
    """

    def __init__(self, *, folder: str, identity: Mapping[str, Any]):
        self._folder = folder
        self._path = join(folder, FILE_NAME)
        self._identity = json.loads(json.dumps(identity))
        self._lines: List[str] = []
        self._lock: Optional[int] = None

    def __enter__(self) -> "Journal":
        if not is_remote(self._folder):
            self._lock = _locked(self._path, self._folder)
        try:
            self._lines = self._whole_lines()
            if not self._lines:
                self._append(json.dumps(self._identity))
            told = difference(json.loads(self._lines[0]), self._identity)
            if told:
                raise UsageError(
                    f"{self._folder} holds an unfinished conversion that differs ({told}): use another --out, or "
                    "delete the folder to start over"
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def finished(self) -> Dict[int, Finished]:
        """The jobs that are done and whose files are there, by index."""
        done = {}
        for line in self._lines[1:]:
            content = json.loads(line)
            shards = {split: ShardFile(**shard) for split, shard in content["shards"].items()}
            if all(self._is_there(shard) for shard in shards.values()):
                done[content["index"]] = Finished(content["index"], shards, content["bad"])
        return done

    def add(self, finished: Finished) -> None:
        """Notes that a job is done, on disk."""
        self._append(json.dumps(dataclasses.asdict(finished)))

    def close_for_good(self) -> None:
        """Deletes the journal, of a conversion that has its manifest."""
        files.remove(self._path)

    def _is_there(self, shard: ShardFile) -> bool:
        path = join(self._folder, shard.file)
        return files.exists(path) and files.size_of(path) == shard.bytes

    def _whole_lines(self) -> List[str]:
        """Without the part of a line that a kill may have left at the end."""
        try:
            text = files.read_file(self._path).decode()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind("\n") + 1]
        if whole != text and self._lock is not None:
            os.truncate(self._path, len(whole.encode()))
        return whole.splitlines()

    def _append(self, line: str) -> None:
        self._lines.append(line)
        if self._lock is None:
            files.write_atomically(self._path, "".join(f"{line}\n" for line in self._lines).encode())
            return
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())


def difference(was: Any, now: Any, name: str = "") -> str:
    """What differs between two pieces of plain data, in a few words; empty where nothing does."""
    if isinstance(was, dict) and isinstance(now, dict):
        keys = sorted({*was, *now})
        found = [difference(was.get(key), now.get(key), f"{name}.{key}" if name else str(key)) for key in keys]
        return "; ".join([text for text in found if text][:3])
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        found = [difference(one, other, f"{name}[{place}]") for place, (one, other) in enumerate(zip(was, now))]
        return "; ".join([text for text in found if text][:3])
    if was == now:
        return ""
    return f"{name} was {_short(was)} and is {_short(now)}"


def _short(value: Any) -> str:
    text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _locked(path: str, folder: str) -> int:
    """The journal's file descriptor, locked until it is closed, as the end of the process does too."""
    import fcntl

    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UsageError(f"--out={folder} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(number)
        raise UsageError(f"another conversion is at work in {folder}: wait for it, or use another --out") from error
    return number
