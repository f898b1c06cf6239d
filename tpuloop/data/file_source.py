"""Examples in record files as a source."""

import abc
import logging
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.faults import ERRORS, Fault, said
from tpuloop.data.lanes import RecordFile, RecordOrder
from tpuloop.data.rebatch import Chunk, rebatched
from tpuloop.data.records.files import open_file
from tpuloop.data.records.framing import DATA_CHECKSUM, RecordFault, read_frames
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Source
from tpuloop.errors import UsageError, first_line

logger = logging.getLogger("tpuloop")


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
        self._split_said = False
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

    @abc.abstractmethod
    def over(self, files: Sequence[RecordFile]) -> "FileSource":
        """A source of the same kind over other files."""

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
            fault = self._damage(file)
            if fault is not None:
                number = before + fault.record * self.order.examples_per_record
                where = f"{file.path}, record {file.first + fault.record}"
                return Fault(number, where, fault.says, rest=fault.rest)
            before += file.examples
        return None

    def wrong_record(self, data: bytes, examples: int) -> Optional[str]:
        """Why a record that is as it was written cannot be one of so many examples; None where it can."""
        del data, examples
        return None

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        rows = shard.rows(batch_size, position=position)
        self._say_split(shard)
        return rebatched(self.order.chunks(seed=seed, position=position, shard=shard), rows)

    def batches(self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE) -> tf.data.Dataset:
        rows = shard.rows(batch_size, position=position)
        self._say_split(shard)
        return rebatched(self.order.chunks(seed=seed, position=position, shard=shard).map(_without_origins), rows)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self.order.stored(), batch_size, shard)

    def one_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self.order.stored().map(_without_origins), batch_size, shard)

    def _pass(self, chunks: tf.data.Dataset, batch_size: int, shard: Shard) -> tf.data.Dataset:
        shard.rows(batch_size)
        batches = rebatched(chunks, batch_size, size=self.size)
        if shard.count == 1:
            return batches
        return batches.map(as_written(lambda *batch: _strided(batch if len(batch) > 1 else batch[0], shard)))

    def _say_split(self, shard: Shard) -> None:
        """Says once where hosts cannot have files of their own."""
        files, hosts = len(self.files), shard.count
        if self._split_said or hosts == 1:
            return
        if self.lanes % hosts:
            logger.warning(
                "%d files on %d hosts are split by example: each host reads every record and keeps its own examples, "
                "since records are read in %d lanes, which %d does not divide",
                files,
                hosts,
                self.lanes,
                hosts,
            )
        elif files < hosts:
            logger.info("%d files are fewer than the %d hosts: they are split by record", files, hosts)
        self._split_said = True

    def _damage(self, file: RecordFile) -> Optional["_Damage"]:
        """The first damaged record of those of a file that are used."""
        if self.order.compression:
            return _damage_in_compressed(file, self.order.compression)
        faults: List[RecordFault] = []
        used = range(file.first, file.first + file.records)
        read = 0
        try:
            with open_file(file.path) as content:
                for _, data in read_frames(content, on_fault=faults.append):
                    number = read + len(faults)
                    read += 1
                    if number >= used.stop or any(fault.record in used for fault in faults):
                        break
                    left = file.examples - (number - file.first) * self.order.examples_per_record
                    wrong = self.wrong_record(data, min(left, self.order.examples_per_record))
                    if wrong is not None and number in used:
                        return _Damage(number - file.first, wrong, False)
        except (OSError, UsageError, tf.errors.OpError) as error:
            return _Damage(0, f"the file cannot be read: {first_line(error)}", True)
        for fault in faults:
            if fault.record in used:
                return _Damage(fault.record - file.first, fault.says, fault.reason != DATA_CHECKSUM)
        missing = read + len(faults)
        return _Damage(max(0, missing - file.first), "the file ends before it", True) if missing < used.stop else None


class _Damage(NamedTuple):
    record: int  # Counted from the first of the file that is used.
    says: str
    rest: bool  # Nothing behind it can be read.


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
def _without_origins(chunk: Chunk) -> Chunk:
    examples, _ = chunk.rows
    return Chunk(examples, chunk.taken)
