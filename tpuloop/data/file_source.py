"""Examples in record files as a source."""

from typing import Any, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.lanes import RecordOrder, Rows
from tpuloop.data.rebatch import rebatched
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Origin, Source

class FileSource(Source):
    """Examples in record files, in the order of `RecordOrder`.

    Args:
      order: of their records.

    Raises:
      DataError: where the files hold no examples.
    """

    def __init__(self, order: RecordOrder):
        self._order = order
        if not order.size:
            raise DataError("the data is empty: its files hold no examples")

    @property
    def size(self) -> int:
        return self._order.size

    @property
    def lanes(self) -> int:
        """Hosts whose number divides this read different records."""
        return self._order.lanes

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        rows = shard.rows(batch_size)
        return rebatched(self._order.chunks(seed=seed, position=position, shard=shard).map(_both), rows)

    def batches(self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE) -> tf.data.Dataset:
        rows = shard.rows(batch_size)
        return rebatched(self._order.chunks(seed=seed, position=position, shard=shard).map(_examples), rows)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self._order.stored().map(_both), batch_size, shard)

    def one_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._pass(self._order.stored().map(_examples), batch_size, shard)

    def _pass(self, chunks: tf.data.Dataset, batch_size: int, shard: Shard) -> tf.data.Dataset:
        shard.rows(batch_size)
        batches = rebatched(chunks, batch_size, size=self.size)
        if shard.count == 1:
            return batches
        return batches.map(as_written(lambda *batch: _strided(batch if len(batch) > 1 else batch[0], shard)))


def _strided(batch: Any, shard: Shard) -> Any:
    return tf.nest.map_structure(lambda leaf: leaf[shard.index :: shard.count], batch)


@as_written
def _examples(rows: Rows) -> Any:
    return rows.examples


@as_written
def _both(rows: Rows) -> Tuple[Any, Origin]:
    return rows.examples, rows.origin
