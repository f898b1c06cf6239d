"""A stream of chunks of any length as a stream of batches of one length."""

from typing import Any, NamedTuple, Optional, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written


class Chunk(NamedTuple):
    """Rows, and which of them to take in which order.

    Attributes:
      rows: nested tensors of one first dimension.
      taken: numbers of rows, int32 or int64 of shape [n].
    """

    rows: Any
    taken: tf.Tensor


def rebatched(chunks: tf.data.Dataset, batch_size: int, *, size: Optional[int] = None) -> tf.data.Dataset:
    """Batches of `batch_size` rows over what is taken of the chunks, in order.

    The cost is per chunk and per batch and not per row, as that of `unbatch().batch()` is; and every row is copied
    once, from its chunk into its batch. Memory as large as a chunk is new memory each time, which is slow.

    Args:
      chunks: of `Chunk`s.
      size: the rows taken of all chunks, of which the last batch holds the rest; None for a stream without end, whose
        batches have a static shape.
    """
    spec = chunks.element_spec.rows
    filling = 0 if size is None else -size % batch_size
    if filling:
        filler = tf.nest.map_structure(lambda leaf: tf.zeros([filling, *leaf.shape[1:]], leaf.dtype), spec)
        chunks = chunks.concatenate(tf.data.Dataset.from_tensors(Chunk(filler, _all(filler, chunks))))
    none = tf.nest.map_structure(lambda leaf: tf.zeros([0, *leaf.shape[1:]], leaf.dtype), spec)
    batches = chunks.scan(none, _cut(batch_size)).flat_map(_picked)
    if size is None or not filling:
        return batches
    last = -(-size // batch_size) - 1

    @as_written
    def without_filler(number: tf.Tensor, batch: Any) -> Any:
        rows = tf.where(number == last, batch_size - filling, batch_size)
        return tf.nest.map_structure(lambda leaf: leaf[:rows], batch)

    return batches.enumerate().map(without_filler)


def _all(rows: Any, chunks: tf.data.Dataset) -> tf.Tensor:
    return tf.range(tf.nest.flatten(rows)[0].shape[0], dtype=chunks.element_spec.taken.dtype)


def _cut(batch_size: int) -> Any:
    """From the rows that were left and a chunk to what is left now, a batch across the two, and picks of whole ones."""

    @as_written
    def cut(rest: Any, chunk: Chunk) -> Tuple[Any, Any]:
        def gathered(taken: tf.Tensor) -> Any:
            return tf.nest.map_structure(lambda leaf: tf.gather(leaf, taken), chunk.rows)

        def joined(first: Any, second: Any) -> Any:
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), first, second)

        left = tf.shape(tf.nest.flatten(rest)[0])[0]
        needed = tf.minimum((batch_size - left) % batch_size, tf.size(chunk.taken))
        head = joined(rest, gathered(chunk.taken[:needed]))
        across = (left + needed) // batch_size  # One, or none where the chunk is too short to fill it.
        bridge = tf.nest.map_structure(
            lambda leaf: tf.reshape(leaf[: across * batch_size], [-1, batch_size, *leaf.shape[1:]]), head
        )
        behind = tf.nest.map_structure(lambda leaf: leaf[across * batch_size :], head)
        taken = chunk.taken[needed:]
        whole = tf.size(taken) // batch_size * batch_size
        picks = tf.reshape(taken[:whole], [-1, batch_size])
        return joined(behind, gathered(taken[whole:])), (bridge, chunk.rows, picks)

    return cut


@as_written
def _picked(bridge: Any, rows: Any, picks: tf.Tensor) -> tf.data.Dataset:
    pick = as_written(lambda taken: tf.nest.map_structure(lambda leaf: tf.gather(leaf, taken), rows))
    return tf.data.Dataset.from_tensor_slices(bridge).concatenate(tf.data.Dataset.from_tensor_slices(picks).map(pick))
