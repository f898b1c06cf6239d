"""Records of many files in a shuffled order that can be entered anywhere and shared by hosts.

The records of an epoch are the files in an order of the epoch's own, one behind the other in a ring that begins at a
place of the epoch's own. Its first records are dealt to as many *lanes*, each a stretch of it, read from its first
record to its last. What the lanes have read of so many records each makes a *window*; inside it every lane's examples
are shuffled, and the window's examples are taken from the lanes in turn. The few records that do not divide into the
lanes, and those that hold fewer examples than the others, are the *tail*, a last window of the epoch.

So every example has a known place in the order, and a position is found by arithmetic: files and windows before it
are not read. As the lanes take turns, hosts whose number divides that of the lanes read different lanes.
"""

import dataclasses
from typing import Any, Callable, Sequence

import numpy as np
import tensorflow as tf

from tpuloop.data import order
from tpuloop.data.as_written import as_written
from tpuloop.data.rebatch import Chunk
from tpuloop.data.shard import Shard
from tpuloop.data.source import Origin

# The lanes of a data set with enough records: as many hosts can read different files, and as many files are read at
# once. A part of the order, and so never a function of the machine.
MOST_LANES = 16

# As lanes take turns, an order of n examples in each correlates by 1/n with the ring they are cut from.
_LEAST_IN_LANE = 64

_EXAMPLES_AT_ONCE = 1024

# Decodes `(records, examples)`, strings of shape [n] that hold `examples` examples each, into the examples, [n *
# examples, ...], nested.
Decode = Callable[[tf.Tensor, tf.Tensor], Any]


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A file of records that hold the same number of examples each, but for the last, which may hold fewer.

    Attributes:
      path: of the file.
      records: in it.
      examples: in it.
      first: records of the file before the first of these; for a file of which a part is not used.
    """

    path: str
    records: int
    examples: int
    first: int = 0


class RecordOrder:
    """The order of the records of some files.

    Args:
      files: in their stored order.
      examples_per_record: of a full record.
      window: about how many examples are shuffled with each other.
      shuffle: False keeps the stored order.
      decode: makes examples of records.
      compression: "", "GZIP" or "ZLIB".

    Attributes:
      files: those that hold records.
      examples_per_record: as above.
      size: examples in all files.
      compression: as above.
    """

    def __init__(
        self,
        files: Sequence[RecordFile],
        *,
        examples_per_record: int,
        window: int,
        shuffle: bool,
        decode: Decode,
        compression: str = "",
    ):
        files = [file for file in files if file.records]
        self.files = tuple(files)
        self.examples_per_record = examples_per_record
        self._paths = [file.path for file in files]
        self._first = np.array([file.first for file in files], np.int64)
        self._decode = decode
        self._shuffle = shuffle
        self.compression = compression
        examples = np.array([file.examples for file in files], np.int64)
        # Full records of each file; and the examples of its short one, where there is one.
        self._full = examples // examples_per_record
        self._short = examples % examples_per_record
        self._example_base = np.concatenate([[0], np.cumsum(examples)])
        self.size = int(examples.sum())
        self._records = int(self._full.sum())
        self._lanes = _lanes(self._records, examples_per_record) if shuffle else 1
        self._per_lane = self._records // self._lanes
        self._window = max(1, min(window // (self._lanes * examples_per_record), self._per_lane))

    @property
    def lanes(self) -> int:
        """How many lanes there are; hosts whose number divides it read different records."""
        return self._lanes

    def chunks(self, *, seed: int, position: int, shard: Shard) -> tf.data.Dataset:
        """The endless stream of `Chunk`s of `(examples, Origin)` from a position of the run on, those of one host."""
        begin, entered = divmod(position, self.size)

        @as_written
        def epoch_from(epoch: tf.Tensor) -> tf.data.Dataset:
            entry = tf.where(epoch == begin, tf.constant(entered, tf.int64), tf.constant(0, tf.int64))
            return _Epoch(self, epoch, entry, seed=seed, shard=shard).chunks()

        return tf.data.Dataset.range(begin, np.iinfo(np.int64).max).flat_map(epoch_from)

    def stored(self) -> tf.data.Dataset:
        """All examples once as `Chunk`s of `(examples, Origin)`, in their stored order."""
        full, per_record = tf.constant(self._full), self.examples_per_record
        bases = tf.constant(self._example_base)
        together = max(1, _EXAMPLES_AT_ONCE // per_record)

        @as_written
        def of_file(file: tf.Tensor) -> tf.data.Dataset:
            count = tf.gather(full, file)
            records = self._read(file, 0).take(count).batch(together)
            numbered = tf.data.Dataset.zip((tf.data.Dataset.range(0, count, together), records))
            return numbered.map(as_written(lambda number, records: of_records(file, number, records)))

        @as_written
        def of_records(file: tf.Tensor, number: tf.Tensor, records: tf.Tensor) -> Chunk:
            count = tf.size(records, out_type=tf.int64) * per_record
            first = tf.gather(bases, file) + number * per_record
            return in_order(self._decode(records, per_record), first, count)

        @as_written
        def of_short(file: tf.Tensor, examples: Any, numbers: tf.Tensor) -> Chunk:
            del file
            return Chunk((examples, Origin(tf.zeros_like(numbers), numbers)), tf.range(tf.size(numbers)))

        def in_order(examples: Any, first: tf.Tensor, count: tf.Tensor) -> Chunk:
            numbers = first + tf.range(count)
            return Chunk((examples, Origin(tf.zeros_like(numbers), numbers)), tf.range(tf.size(numbers)))

        @as_written
        def with_short(file: tf.Tensor) -> tf.data.Dataset:
            has_short = tf.cast(tf.gather(tf.constant(self._short), file) > 0, tf.int64)
            return of_file(file).concatenate(self._shorts(tf.tile([file], [has_short])).map(of_short))

        files = tf.data.Dataset.range(len(self._paths))
        return files.flat_map(with_short if self._short.any() else of_file)

    def _shorts(self, files: Any) -> tf.data.Dataset:
        """The short records of these files: file, examples, and their stored numbers."""
        counts, full = tf.constant(self._short), tf.constant(self._full)
        bases = tf.constant(self._example_base)

        @as_written
        def short(file: tf.Tensor) -> tf.data.Dataset:
            count, before = tf.gather(counts, file), tf.gather(full, file)
            first = tf.gather(bases, file) + before * self.examples_per_record
            numbers = tf.range(first, first + count)
            record = self._read(file, before).take(1).batch(1)
            return record.map(as_written(lambda record: (file, self._decode(record, count), numbers)))

        return tf.data.Dataset.from_tensor_slices(files).flat_map(short)

    def _read(self, file: tf.Tensor, skip: Any) -> tf.data.Dataset:
        """The records of a file from one on."""
        path = tf.gather(tf.constant(self._paths), file)
        dataset = tf.data.TFRecordDataset(path, compression_type=self.compression or None)
        return dataset.skip(tf.gather(tf.constant(self._first), file) + skip if self._first.any() else skip)


class _Epoch:
    """The order of one epoch, whose number is known only in the graph."""

    def __init__(self, whole: RecordOrder, epoch: tf.Tensor, entry: tf.Tensor, *, seed: int, shard: Shard):
        self._whole = whole
        self._epoch = epoch
        self._entry = entry  # The first place in the epoch to read.
        self._seed = seed
        self._shard = shard
        files = len(whole._paths)
        if whole._shuffle:
            self._files = tf.cast(order.file_order(epoch, seed=seed, files=files), tf.int64)
            self._begin = order.offset(epoch, seed=seed, size=max(1, whole._records))
        else:
            self._files = tf.range(files, dtype=tf.int64)
            self._begin = tf.constant(0, tf.int64)
        # Once around the ring and once more, so that a stretch of it lies in one piece.
        self._ring = tf.tile(self._files, [2])
        self._counts = tf.gather(tf.constant(whole._full), self._ring)
        self._ends = tf.cumsum(self._counts)
        # The host's first row is at this place of the epoch, counted around the hosts.
        self._turn = (shard.index - epoch * whole.size) % shard.count

    def chunks(self) -> tf.data.Dataset:
        whole = self._whole
        window_examples = whole._lanes * whole._window * whole.examples_per_record
        main = whole._lanes * whole._per_lane * whole.examples_per_record
        chunks = None
        if main:
            # Where the entry is in the tail, that behind the last, which may be shorter than the others.
            windows = -(-whole._per_lane // whole._window)
            first = tf.where(self._entry < main, self._entry // window_examples, windows)
            chunks = self._windows(first).map(as_written(lambda *window: self._shuffled(*window)))
        if main < whole.size:
            tail = tf.data.Dataset.from_tensors(0).flat_map(as_written(lambda _: self._tail(main)))
            chunks = tail if chunks is None else chunks.concatenate(tail)
        return chunks

    def _windows(self, first: tf.Tensor) -> tf.data.Dataset:
        """From window `first` on: its number, the lanes that were read, and their examples, [lanes, n, ...]."""
        whole, shard = self._whole, self._shard
        if whole._lanes % shard.count == 0:
            lanes = tf.range(self._turn, whole._lanes, shard.count)
            count = whole._lanes // shard.count
        else:
            lanes = tf.range(whole._lanes, dtype=tf.int64)
            count = whole._lanes
        skipped = first * whole._window

        @as_written
        def lane_from(lane: tf.Tensor) -> tf.data.Dataset:
            begin = self._begin + lane * whole._per_lane + skipped
            records = self._stretch(begin, tf.maximum(whole._per_lane - skipped, 0)).batch(whole._window)
            return records.map(as_written(lambda records: whole._decode(records, whole.examples_per_record)))

        def numbered(number: tf.Tensor, examples: Any) -> Any:
            return number, lanes, examples

        windows = tf.data.Dataset.from_tensor_slices(lanes).interleave(
            lane_from, cycle_length=count, block_length=1, num_parallel_calls=count, deterministic=True
        )
        return windows.batch(count).enumerate(first).map(as_written(numbered))

    def _stretch(self, begin: tf.Tensor, length: tf.Tensor) -> tf.data.Dataset:
        """`length` records of the ring from the place `begin` on."""
        edges = [begin, begin + length - 1]
        first, last = tf.unstack(tf.searchsorted(self._ends, edges, side="right", out_type=tf.int64))

        @as_written
        def piece(place: tf.Tensor) -> tf.data.Dataset:
            file_end = tf.gather(self._ends, place)
            start = file_end - tf.gather(self._counts, place)
            skip = tf.maximum(begin - start, 0)
            end = tf.minimum(begin + length, file_end)
            return self._whole._read(tf.gather(self._ring, place), skip).take(end - start - skip)

        pieces = tf.data.Dataset.range(first, last + 1)
        return pieces.flat_map(piece).take(length)  # No record at all where the length is 0.

    def _numbers(self, records: tf.Tensor) -> tf.Tensor:
        """The stored numbers of the examples of full records at these places of the ring; shape [..., per record]."""
        whole = self._whole
        places = tf.searchsorted(self._ends, tf.reshape(records, [-1]), side="right", out_type=tf.int64)
        places = tf.reshape(places, tf.shape(records))
        starts = tf.gather(self._ends, places) - tf.gather(self._counts, places)
        base = tf.gather(tf.constant(whole._example_base), tf.gather(self._ring, places))
        inside = tf.range(whole.examples_per_record, dtype=tf.int64)
        return tf.expand_dims(base + (records - starts) * whole.examples_per_record, -1) + inside

    def _shuffled(self, window: tf.Tensor, lanes: tf.Tensor, examples: Any) -> Chunk:
        """The rows of the host of one window from the entry on, in order."""
        whole = self._whole
        leaves = tf.nest.flatten(examples)
        size, read = tf.shape(leaves[0])[1], tf.shape(lanes)[0]
        # [lanes, records, per record], as the examples lie in the window.
        in_lane = window * whole._window + tf.range(tf.cast(size // whole.examples_per_record, tf.int64))
        records = tf.expand_dims(self._begin + lanes * whole._per_lane, 1) + in_lane
        numbers = tf.reshape(self._numbers(records), [-1])
        if whole._shuffle:
            taken = order.window_orders(self._epoch, window, lanes, seed=self._seed, size=size)
        else:
            taken = tf.tile([tf.range(size)], [read, 1])
        # The lanes in turn: place p of the window is number p // lanes of lane p % lanes.
        taken = tf.reshape(tf.transpose(taken + tf.expand_dims(tf.range(read) * size, 1)), [-1])
        start = window * (whole._lanes * whole._window * whole.examples_per_record)
        turns = start + whole._lanes * tf.range(tf.cast(size, tf.int64))
        places = tf.reshape(tf.expand_dims(turns, 1) + lanes, [-1])
        return self._own(places, taken, _flat(examples), numbers)

    def _own(self, places: tf.Tensor, taken: tf.Tensor, examples: Any, numbers: tf.Tensor) -> Chunk:
        """Of the rows `taken`, which are at `places` of the epoch, those of the host from the entry on."""
        mine = (places % self._shard.count == self._turn) & (places >= self._entry)
        epochs = tf.fill(tf.shape(numbers), self._epoch)
        return Chunk((examples, Origin(epochs, numbers)), tf.boolean_mask(taken, mine))

    def _tail(self, main: int) -> tf.data.Dataset:
        """The rows of the host in the tail as one chunk."""
        whole = self._whole
        parts = []
        rest = whole._records - whole._lanes * whole._per_lane
        if rest:
            begin = self._begin + whole._lanes * whole._per_lane
            numbers = tf.reshape(self._numbers(begin + tf.range(rest, dtype=tf.int64)), [-1])
            records = self._stretch(begin, tf.constant(rest, tf.int64)).batch(rest)
            decoded = records.map(as_written(lambda records: whole._decode(records, whole.examples_per_record)))
            parts.append(tf.data.Dataset.zip((decoded, tf.data.Dataset.from_tensors(numbers))))
        shorts = np.flatnonzero(whole._short)
        if len(shorts):
            without_file = as_written(lambda file, *rows: rows)
            parts.append(whole._shorts(shorts.astype(np.int64)).map(without_file))
        together = parts[0] if len(parts) == 1 else parts[0].concatenate(parts[1])
        size = whole.size - main

        @as_written
        def shuffled(examples: Any, numbers: tf.Tensor) -> Chunk:
            # A window of its own behind all others.
            window = tf.constant(np.iinfo(np.int64).max // 2, tf.int64)
            taken = tf.range(size)
            if whole._shuffle:
                taken = order.window_orders(self._epoch, window, tf.zeros([1], tf.int64), seed=self._seed, size=size)[0]
            return self._own(main + tf.range(size, dtype=tf.int64), taken, examples, numbers)

        return together.unbatch().batch(size).map(shuffled)


def _lanes(records: int, examples_per_record: int) -> int:
    """A power of two that gives each lane a record at least, and enough examples to be shuffled well."""
    lanes = 1
    while lanes * 2 <= min(MOST_LANES, records, records * examples_per_record // _LEAST_IN_LANE):
        lanes *= 2
    return lanes


def _flat(examples: Any) -> Any:
    """[lanes, n, ...] as [lanes * n, ...]."""
    return tf.nest.map_structure(lambda leaf: tf.reshape(leaf, [-1, *leaf.shape[2:]]), examples)
