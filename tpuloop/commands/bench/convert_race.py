"""Converting a CSV file, against a hand-written parallel writer of the same records."""

import csv
import itertools
import multiprocessing
import os
import tempfile
import time
from typing import Any, BinaryIO, Dict, Iterator, List, Tuple

import numpy as np

from tpuloop.data.convert.conversion import Conversion, Layout
from tpuloop.data.convert.csv_input import CsvKind
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Manifest

LENGTH = 128  # Of an example: as many numbers as tokens in a short text.
_CLASSES = 3
_PER_RECORD = 64
_COLUMNS = f"ids:int32[{LENGTH}]"

_Share = Tuple[str, int, int, str]  # A file, where the share's rows begin and end, and the file to write.


def convert_race(*, examples: int, workers: int, repeats: int) -> Dict[str, Any]:
    """Times both, in turns, from the CSV file to records on disk; processes' starts are a part of it.

    Each run of the command is a whole one: it finds the rows, writes the shards safely, and the manifest.

    Args:
      examples: rows of the file, of 128 token numbers and a label.
      workers: processes of each.
      repeats: runs of each.

    Returns:
      Plain data: seconds of every run by name, in the order they took turns; bytes of the CSV file; examples.

    Raises:
      RuntimeError: where the two did not write the same values.
    """
    seconds: Dict[str, List[float]] = {"tpuloop": [], "hand-written": []}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "examples.csv")
        _write_csv(path, examples)
        for repeat in range(repeats):
            ours, theirs = (os.path.join(folder, f"{name}-{repeat}") for name in ("ours", "theirs"))
            runs = [("tpuloop", convert_by_command, ours), ("hand-written", write_by_hand, theirs)]
            for name, run, out in runs if repeat % 2 else runs[::-1]:
                started = time.perf_counter()
                run(path, out, workers)
                seconds[name].append(time.perf_counter() - started)
            if _values(ours) != _values(theirs):
                raise RuntimeError("the two writers did not write the same values")
        return {"seconds": seconds, "bytes": os.path.getsize(path), "examples": examples, "workers": workers}


def convert_by_command(path: str, out: str, workers: int) -> None:
    """What `tpuloop data convert PATH --out=OUT --label=label --columns=ids:int32[128]` does."""
    kind = CsvKind()
    given = {**dict.fromkeys(kind.flags), "label": "label", "columns": _COLUMNS, "seed": 0, "on_bad_record": "fail"}
    data = kind.scan([path], given, workers=workers)
    with open(os.devnull, "w") as nowhere:
        Conversion(
            data=data,
            folder=out,
            layout=Layout(examples_per_record=_PER_RECORD),
            options={},
            count=workers,
            stream=nowhere,
        ).run()


def write_by_hand(path: str, out: str, workers: int) -> None:
    """A pool, a share of the file for each process, the csv module, and straight writes of the same records."""
    os.makedirs(out)
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.readline()
        bounds = [file.tell(), *(_row_start(file, size * share // workers) for share in range(1, workers)), size]
    shares = [
        (path, start, stop, os.path.join(out, f"part-{index:05d}.tfrecord"))
        for index, (start, stop) in enumerate(zip(bounds, bounds[1:]))
    ]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(_write_share, shares, chunksize=1)


def _write_share(share: _Share) -> None:
    path, start, stop, target = share
    with open(path, "rb") as source, open(target, "wb") as out:
        source.seek(start)
        reader = csv.reader(line.decode() for line in _lines(source, stop))
        while True:
            rows = list(itertools.islice(reader, _PER_RECORD))
            if not rows:
                return
            values = np.array([list(map(int, row)) for row in rows], np.int64)
            ids, labels = values[:, :LENGTH].astype(np.int32), values[:, LENGTH]
            out.write(frame(ids.tobytes() + labels.tobytes()))


def _lines(file: BinaryIO, stop: int) -> Iterator[bytes]:
    left = stop - file.tell()
    for line in file:
        yield line
        left -= len(line)
        if left <= 0:
            return


def _row_start(file: BinaryIO, offset: int) -> int:
    file.seek(offset)
    file.readline()
    return file.tell()


def _write_csv(path: str, examples: int) -> None:
    random = np.random.default_rng(0)
    rows = [",".join(map(str, row)) for row in random.integers(0, 30_522, [1000, LENGTH]).tolist()]
    with open(path, "w") as file:
        file.write(",".join(f"ids_{index}" for index in range(LENGTH)) + ",label\n")
        for index in range(examples):
            file.write(f"{rows[index % 1000]},{index % _CLASSES}\n")


def _values(folder: str) -> Tuple[bytes, bytes]:
    """All ids and labels, in order, whatever the files."""
    from tpuloop.data.records.framing import read_frames

    names = sorted(name for name in os.listdir(folder) if name.endswith(".tfrecord"))
    ids, labels = [], []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            for _, data in read_frames(file):
                count = len(data) // (LENGTH * 4 + 8)
                ids.append(data[: count * LENGTH * 4])
                labels.append(data[count * LENGTH * 4 :])
    if os.path.exists(os.path.join(folder, "manifest.json")):
        Manifest.load(folder)
    return b"".join(ids), b"".join(labels)
