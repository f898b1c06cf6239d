"""Examples in record files as a source."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.faults import ERRORS, Fault, said
from tpuloop.data.lanes import RecordFile, RecordOrder, Rows
from tpuloop.data.rebatch import rebatched
from tpuloop.data.records.files import open_file
from tpuloop.data.records.framing import DATA_CHECKSUM, RecordFault, read_frames
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Origin, Source


class FileSource(Source):
    """Examples in record files, in the order of `RecordOrder`.

    Args:
      order: of their records.

    Attributes:
      order: as above.

    Raises:
      DataError: where the files hold no examples.
    """

    def __init__(self, order: RecordOrder):
        self.order = order
        if not order.size:
            raise DataError("the data is empty: its files hold no examples")

    @property
    def size(self) -> int:
        return self.order.size

    @property
    def files(self) -> Tuple[RecordFile, ...]:
        """Those that hold records, in their stored order."""
        return self.order.files

    @property
    def lanes(self) -> int:
        """Hosts whose number divides this read different records."""
        return self.order.lanes

    def over(self, files: Sequence[RecordFile]) -> "FileSource":
        """A source of the same kind over other files."""
        raise NotImplementedError

    @property
    def remedy(self) -> str:
        return "mend the file, or leave such records out (on_bad_record=skip)"

    def whereabouts(self, number: int) -> str:
        for file in self.files:
            if number < file.examples:
                record, example = divmod(number, self.order.examples_per_record)
                inside = f", example {example} of it" if self.order.examples_per_record > 1 else ""
                return f"{file.path}, record {file.first + record}{inside}"
            number -= file.examples
        return super().whereabouts(number)

    def find_fault(self) -> Optional[Fault]:
        before = 0
        for file in self.files:
            fault = _damage(file, self.order.compression)
            if fault is not None:
                number = before + fault.record * self.order.examples_per_record
                where = f"{file.path}, record {file.first + fault.record}"
                return Fault(number, where, fault.says, rest=fault.rest)
            before += file.examples
        return None

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        rows = shard.rows(batch_size)
        return rebatched(self.order.chunks(seed=seed, position=position, shard=shard).map(_both), rows)

    def batches(self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE) -> tf.data.Dataset:
        rows = shard.rows(batch_size)
        return rebatched(self.order.chunks(seed=seed, position=position, shard=shard).map(_examples), rows)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self.order.stored().map(_both), batch_size, shard)

    def one_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self.order.stored().map(_examples), batch_size, shard)

    def _pass(self, chunks: tf.data.Dataset, batch_size: int, shard: Shard) -> tf.data.Dataset:
        shard.rows(batch_size)
        batches = rebatched(chunks, batch_size, size=self.size)
        if shard.count == 1:
            return batches
        return batches.map(as_written(lambda *batch: _strided(batch if len(batch) > 1 else batch[0], shard)))


class _Damage(NamedTuple):
    record: int  # Counted from the first of the file that is used.
    says: str
    rest: bool  # Nothing behind it can be read.


def _damage(file: RecordFile, compression: str) -> Optional[_Damage]:
    """The first damaged record of those of a file that are used."""
    if compression:
        return _damage_in_compressed(file, compression)
    faults: List[RecordFault] = []
    used = range(file.first, file.first + file.records)
    with open_file(file.path) as content:
        for number, _ in enumerate(read_frames(content, on_fault=faults.append)):
            if number + len(faults) >= used.stop or any(fault.record in used for fault in faults):
                break
    for fault in faults:
        if fault.record in used:
            return _Damage(fault.record - file.first, fault.says, fault.reason != DATA_CHECKSUM)
    return None


def _damage_in_compressed(file: RecordFile, compression: str) -> Optional[_Damage]:
    iterator = iter(tf.data.TFRecordDataset(file.path, compression_type=compression).skip(file.first))
    for number in range(file.records):
        try:
            next(iterator)
        except ERRORS as error:
            return _Damage(number, said(error), True)
        except StopIteration:
            return _Damage(number, "the file ends before it", True)
    return None


def _strided(batch: Any, shard: Shard) -> Any:
    return tf.nest.map_structure(lambda leaf: leaf[shard.index :: shard.count], batch)


@as_written
def _examples(rows: Rows) -> Any:
    return rows.examples


@as_written
def _both(rows: Rows) -> Tuple[Any, Origin]:
    return rows.examples, rows.origin
