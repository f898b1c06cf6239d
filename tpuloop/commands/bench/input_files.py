"""The files that `tpuloop bench input` reads: the same examples of 128 tokens in three forms, and small pictures."""

import dataclasses
import os
from typing import Iterable, List, Sequence

import numpy as np
import tensorflow as tf

from tpuloop.data.lanes import RecordFile
from tpuloop.data.records import example
from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import EXAMPLES_PER_RECORD, pack

LENGTH = 128
_VOCABULARY = 30522  # BERT's.

FEATURES = (Feature("ids", "int32", (LENGTH,)), Feature("label", "int32"))

# Making an example takes longer than reading it, so that the same ones come again and again.
_DIFFERENT_EXAMPLES = 16384
_DIFFERENT_PICTURES = 8
_SIDE = 16  # Pixels.


@dataclasses.dataclass(frozen=True)
class TokenFiles:
    """Where the examples are.

    Attributes:
      ids: of different examples, int32 of shape [n, 128]; the label of one is its number, so that every row that
        anybody reads can be checked.
      packed: record files of 64 examples a record.
      examples: record files of one tf.train.Example a record.
      csv: a file of a row for each example, the label last.
    """

    ids: np.ndarray
    packed: List[RecordFile]
    examples: List[RecordFile]
    csv: str


def write_tokens(folder: str, *, count: int, files: int) -> TokenFiles:
    """Writes `count` examples of random tokens, each kind of record into so many files."""
    ids = np.random.RandomState(0).randint(_VOCABULARY, size=[min(count, _DIFFERENT_EXAMPLES), LENGTH], dtype=np.int32)
    rows = [f"{','.join(map(str, row))},{label}\n" for label, row in enumerate(ids.tolist())]
    csv = os.path.join(folder, "examples.csv")
    with open(csv, "w", encoding="ascii") as file:
        file.writelines(rows[number % len(rows)] for number in range(count))
    records = [example.encode({"ids": row, "label": label}) for label, row in enumerate(ids)]
    return TokenFiles(
        ids=ids,
        packed=write_packed(folder, ids, count=count, files=files),
        examples=_write_examples(folder, "examples", records, count=count, files=files),
        csv=csv,
    )


def write_packed(folder: str, ids: np.ndarray, *, count: int, files: int) -> List[RecordFile]:
    """Writes `count` packed examples, `ids` over and over again."""
    written = []
    for index, part in enumerate(_parts(count, files)):
        path = os.path.join(folder, f"packed-{index:05d}.tfrecord")
        starts = range(part.start, part.stop, EXAMPLES_PER_RECORD)
        numbers = (np.arange(start, min(start + EXAMPLES_PER_RECORD, part.stop), dtype=np.int32) for start in starts)
        labels = (some % len(ids) for some in numbers)
        records = _write_records(path, (pack({"ids": ids[some], "label": some}) for some in labels))
        written.append(RecordFile(path, records, len(part)))
    return written


def write_pictures(folder: str, *, count: int, files: int) -> List[RecordFile]:
    """Writes `count` examples of a JPEG each, the same few over and over, with the common names of features."""
    random = np.random.RandomState(0)
    jpegs = [
        tf.io.encode_jpeg(random.randint(256, size=[_SIDE, _SIDE, 3], dtype=np.uint8)).numpy()
        for _ in range(_DIFFERENT_PICTURES)
    ]
    records = [
        example.encode({"image/encoded": jpeg, "image/class/label": number}) for number, jpeg in enumerate(jpegs)
    ]
    return _write_examples(folder, "pictures", records, count=count, files=files)


def _write_examples(folder: str, name: str, records: Sequence[bytes], *, count: int, files: int) -> List[RecordFile]:
    written = []
    for index, part in enumerate(_parts(count, files)):
        path = os.path.join(folder, f"{name}-{index:05d}.tfrecord")
        _write_records(path, (records[number % len(records)] for number in part))
        written.append(RecordFile(path, len(part), len(part)))
    return written


def _parts(count: int, files: int) -> List[range]:
    """Numbers for each file, of which only the last does not divide into packed records."""
    step = -(-count // (files * EXAMPLES_PER_RECORD)) * EXAMPLES_PER_RECORD
    return [range(start, min(start + step, count)) for start in range(0, count, step)]


def _write_records(path: str, records: Iterable[bytes]) -> int:
    """Writes a file, and returns how many records it has."""
    count = 0
    with open(path, "wb") as file:
        for record in records:
            file.write(frame(record))
            count += 1
    return count
