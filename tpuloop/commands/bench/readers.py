"""The input pipelines that are compared: all give batches of the same examples, in orders of their own, without end."""

import csv
import dataclasses
from typing import Any, Dict, Iterator, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.commands.bench.input_files import FEATURES, LENGTH, TokenFiles
from tpuloop.commands.bench.reader_names import CSV, OURS, PACKED
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.packing import EXAMPLES_PER_RECORD

_PARSED = {"ids": tf.io.FixedLenFeature([LENGTH], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}


def readers(files: TokenFiles, *, batch: int) -> Dict[str, tf.data.Dataset]:
    """By name the datasets of `{"ids": [batch, 128], "label": [batch]}`, but for the hand-tuned one."""
    packed = PackedSource(files.packed, features=FEATURES, examples_per_record=EXAMPLES_PER_RECORD)
    records = RecordSource(files.examples).map_batches(_parse)
    return {
        PACKED: packed.batches(batch_size=batch, seed=0).prefetch(tf.data.AUTOTUNE),
        CSV: _from_csv(files.csv, batch),
        OURS: records.batches(batch_size=batch, seed=0).prefetch(tf.data.AUTOTUNE),
    }


@dataclasses.dataclass(frozen=True)
class Tuning:
    """What one tries out for a pipeline of examples in records.

    Attributes:
      cycle: files read at once; None leaves it to tf.data.
      block: records from one file before the next.
      parse_calls: batches parsed at once; None leaves it to tf.data.
    """

    cycle: Any
    block: int = 1
    parse_calls: Any = None

    def __str__(self) -> str:
        cycle, calls = ("AUTOTUNE" if value is None else value for value in (self.cycle, self.parse_calls))
        return f"cycle_length={cycle}, block_length={self.block}, {calls} parse calls"


TUNINGS = (Tuning(None), Tuning(4), Tuning(16), Tuning(4, block=16), Tuning(16, block=16), Tuning(4, 16, 2))


def hand_tuned(files: TokenFiles, tuning: Tuning, *, batch: int, shuffled: int) -> tf.data.Dataset:
    """What tf.data's guide on performance tells to write.

    Args:
      shuffled: examples in the shuffle buffer.
    """
    paths = [file.path for file in files.examples]
    records = (
        tf.data.Dataset.from_tensor_slices(paths)
        .shuffle(len(paths))
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=tuning.cycle,
            block_length=tuning.block,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=False,
        )
    )
    return (
        records.shuffle(shuffled)
        .repeat()
        .batch(batch, drop_remainder=True)
        .map(_parse, num_parallel_calls=tuning.parse_calls or tf.data.AUTOTUNE, deterministic=False)
        .prefetch(tf.data.AUTOTUNE)
    )


def _parse(serialized: tf.Tensor) -> Any:
    return tf.io.parse_example(serialized, _PARSED)


def _from_csv(path: str, batch: int) -> tf.data.Dataset:
    def rows() -> Iterator[Tuple[np.ndarray, int]]:
        with open(path, newline="") as file:
            for row in csv.reader(file):
                yield np.array(row[:-1], np.int32), int(row[-1])

    signature = tf.TensorSpec([LENGTH], tf.int32), tf.TensorSpec([], tf.int32)
    batches = (
        tf.data.Dataset.from_generator(rows, output_signature=signature).repeat().batch(batch, drop_remainder=True)
    )
    return batches.map(lambda ids, label: {"ids": ids, "label": label}).prefetch(tf.data.AUTOTUNE)
