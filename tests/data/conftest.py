"""Small record files whose examples say their own numbers, and their streams read whole."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.lanes import RecordFile
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.framing import OVERHEAD, frame
from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import pack
from tpuloop.data.shard import WHOLE

FEATURES = (Feature("id", "int32"), Feature("twice", "int64", (2,)), Feature("odd", "bool"))


def _columns(ids):
    ids = np.asarray(ids)
    twice = np.stack([ids * 2, -ids * 2], axis=1).astype(np.int64)
    return {"id": ids.astype(np.int32), "twice": twice, "odd": ids % 2 == 1}


class Files:
    """Writes files into a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.written = 0

    def packed(self, counts, *, per_record, **options):
        """A packed source of files that hold so many examples each."""
        files, first = [], 0
        for count in counts:
            ids = range(first, first + count)
            records = [pack(_columns(ids[start : start + per_record])) for start in range(0, count, per_record)]
            files.append(RecordFile(self._write(records), len(records), count))
            first += count
        return PackedSource(files, features=FEATURES, examples_per_record=per_record, **options)

    def records(self, counts, *, text=lambda number: b"%d" % number, compression="", **options):
        """A source of one example a record, in files that hold so many each."""
        files, first = [], 0
        for count in counts:
            records = [text(number) for number in range(first, first + count)]
            files.append(RecordFile(self._write(records, compression), count, count))
            first += count
        return RecordSource(files, compression=compression, **options)

    def _write(self, records, compression=""):
        path = os.path.join(str(self.folder), f"part-{self.written:03d}.tfrecord")
        self.written += 1
        if compression:
            with tf.io.TFRecordWriter(path, compression) as writer:
                for record in records:
                    writer.write(record)
        else:
            with open(path, "wb") as file:
                file.write(b"".join(map(frame, records)))
        return path


@pytest.fixture
def files(tmp_path):
    """`files.packed(...)`, `files.records(...)`: sources over new files of the test's own."""
    return Files(tmp_path)


def _ids(examples):
    """The numbers that examples of any of these sources say they have."""
    if isinstance(examples, dict):
        ids = examples["id"].numpy()
        np.testing.assert_array_equal(examples["twice"].numpy(), np.stack([ids * 2, -ids * 2], axis=1))
        np.testing.assert_array_equal(examples["odd"].numpy(), ids % 2 == 1)
        return ids
    examples = examples.numpy()
    return examples.astype(np.int64) if examples.dtype == object else examples


def _read_ids(source, count, *, batch_size=1, seed=0, position=0, shard=WHOLE):
    """The ids of so many global examples, or of all of one host's share of them; the origins must say the same."""
    numbered = source.numbered_batches(batch_size=batch_size, seed=seed, position=position, shard=shard)
    ids = []
    for examples, origin in numbered.take(-(-count // batch_size)):
        ids.append(_ids(examples))
        assert len(ids[-1]) == batch_size // shard.count
        np.testing.assert_array_equal(origin.numbers, ids[-1])
        if shard == WHOLE:
            start = position + (len(ids) - 1) * batch_size
            np.testing.assert_array_equal(origin.epochs, (start + np.arange(batch_size)) // source.size)
    return np.concatenate(ids)[: count if shard == WHOLE else None].tolist()


@pytest.fixture(scope="session")
def read_ids():
    """`read_ids(source, count, batch_size=..., seed=..., position=..., shard=...)`."""
    return _read_ids


@pytest.fixture(scope="session")
def flip_byte():
    """`flip_byte(path, record, part)`: damages the 'data' or the 'length' of a record."""

    def flip(path, record, part="data"):
        with open(path, "r+b") as file:
            for _ in range(record):
                length = int.from_bytes(file.read(8), "little")
                file.seek(length + OVERHEAD - 8, os.SEEK_CUR)
            file.seek(0 if part == "length" else 12, os.SEEK_CUR)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x40]))

    return flip
