"""A stream of chunks of any length as a stream of batches of one length."""

from typing import Any, Optional, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written


def rebatched(chunks: tf.data.Dataset, batch_size: int, *, size: Optional[int] = None) -> tf.data.Dataset:
    """Batches of `batch_size` rows over the rows of `chunks` in order.

    The cost is per chunk and per batch and not per row, as that of `unbatch().batch()` is.

    Args:
      chunks: nested tensors of one first dimension, of any length in each chunk.
      size: the rows in all chunks, of which the last batch holds the rest; None for a stream without end, whose
        batches have a static shape.
    """
    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), chunks.element_spec)
    if size is not None:
        filling = -size % batch_size
        filler = tf.nest.map_structure(lambda leaf: tf.zeros([filling, *leaf.shape[1:]], leaf.dtype), spec)
        chunks = chunks.concatenate(tf.data.Dataset.from_tensors(filler))
    batches = chunks.scan(_no_rows(spec), _cut(batch_size)).unbatch()
    if size is None or not filling:
        return batches
    last = -(-size // batch_size) - 1

    @as_written
    def without_filler(number: tf.Tensor, batch: Any) -> Any:
        rows = tf.where(number == last, batch_size - filling, batch_size)
        return tf.nest.map_structure(lambda leaf: leaf[:rows], batch)

    return batches.enumerate().map(without_filler)


def _no_rows(spec: Any) -> Any:
    return tf.nest.map_structure(lambda leaf: tf.zeros([0, *leaf.shape[1:]], leaf.dtype), spec)


def _cut(batch_size: int) -> Any:
    @as_written
    def cut(rest: Any, chunk: Any) -> Tuple[Any, Any]:
        rows = tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), rest, chunk)
        full = tf.shape(tf.nest.flatten(rows)[0])[0] // batch_size * batch_size
        batches = tf.nest.map_structure(lambda leaf: tf.reshape(leaf[:full], [-1, batch_size, *leaf.shape[1:]]), rows)
        return tf.nest.map_structure(lambda leaf: leaf[full:], rows), batches

    return cut
