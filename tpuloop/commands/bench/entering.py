"""How long a stream takes to its first batch when it is entered at its start and far inside, and what it decodes."""

import time
from typing import Any, Callable, Dict, List, Sequence

import tensorflow as tf

from tpuloop.commands.bench.input_files import FEATURES
from tpuloop.commands.bench.stream_rates import rest
from tpuloop.data.lanes import RecordFile
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.packing import EXAMPLES_PER_RECORD
from tpuloop.data.source import Source

INSIDE = 0.9  # Of an epoch.

_ENCODED, _LABEL = "image/encoded", "image/class/label"
_PARSED = {_ENCODED: tf.io.FixedLenFeature([], tf.string), _LABEL: tf.io.FixedLenFeature([], tf.int64)}


def enter_packed(files: Sequence[RecordFile], *, batch: int, repeats: int) -> Dict[str, Any]:
    """The seconds from making the stream to its first batch, as plain data: `start` and `inside`, for each repeat."""
    source = PackedSource(files, features=FEATURES, examples_per_record=EXAMPLES_PER_RECORD)
    seconds = _seconds_to_first_batch(source, batch=batch, repeats=repeats)
    return {"examples": source.size, **seconds}


def enter_pictures(files: Sequence[RecordFile], *, batch: int, repeats: int) -> Dict[str, Any]:
    """The same of JPEGs, and the pictures that were decoded until it all came to rest after the first batch."""
    decoded: List[int] = []

    def counted(record: bytes) -> bytes:
        decoded.append(1)
        return record

    def decode(example: Any, seed: tf.Tensor) -> Any:
        del seed
        record = tf.ensure_shape(tf.numpy_function(counted, [example[_ENCODED]], tf.string), [])
        return tf.io.decode_jpeg(record, channels=3), example[_LABEL]

    pictures = RecordSource(files).map_batches(lambda records: tf.io.parse_example(records, _PARSED))
    source = pictures.map_examples(decode, name="decode")
    counts: List[int] = []

    def at_rest() -> None:
        rest()
        counts.append(len(decoded))
        decoded.clear()

    seconds = _seconds_to_first_batch(source, batch=batch, repeats=repeats, after=at_rest)
    started, inside = counts[2::2], counts[3::2]  # The first two are of the warm-up.
    return {"examples": source.size, "batch": batch, **seconds, "decoded": {"start": started, "inside": inside}}


def _seconds_to_first_batch(
    source: Source, *, batch: int, repeats: int, after: Callable[[], None] = rest
) -> Dict[str, Any]:
    positions = {"start": 0, "inside": int(INSIDE * source.size) // batch * batch}
    seconds: Dict[str, List[float]] = {name: [] for name in positions}
    for repeat in range(repeats + 1):
        for name, position in positions.items():
            began = time.perf_counter()
            iterator = iter(source.batches(batch_size=batch, seed=0, position=position).prefetch(tf.data.AUTOTUNE))
            next(iterator)
            if repeat:  # In the first, TensorFlow warms up.
                seconds[name].append(time.perf_counter() - began)
            after()
            del iterator
    return seconds
