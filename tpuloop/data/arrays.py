"""Arrays in memory as a source."""

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.source import Source

_ROWS_AT_ONCE = 1024


class ArraySource(Source):
    """Examples that lie in memory, shuffled over the whole of them.

    The shuffle is `tf.random.experimental.index_shuffle`, a permutation that can be asked for any one of its places
    (a block cipher in integer arithmetic), so that entering the stream anywhere costs nothing.

    Args:
      arrays: nested arrays or tensors, such as `(x, y)` or `(x, y, sample_weight)` or `({"ids": ...}, y)`; the first
        dimension of each counts the examples.
      shuffle: False keeps the stored order in every epoch.

    Raises:
      ValueError: where there are no examples, or arrays of different lengths.
    """

    def __init__(self, arrays: Any, *, shuffle: bool = True):
        # Tuples, since tf.data takes a list for one tensor to be stacked.
        arrays = tf.nest.map_structure(_to_array, tf.__internal__.nest.list_to_tuple(arrays))
        leaves = tf.nest.flatten(arrays)
        lengths = [len(array) for array in leaves if array.ndim]
        if len(lengths) != len(leaves) or len(set(lengths)) != 1:
            raise DataError(f"arrays must have one first dimension, the number of examples; theirs are {lengths}")
        if lengths[0] == 0:
            raise DataError("the data is empty: the arrays hold 0 examples")
        if lengths[0] > np.iinfo(np.int32).max:
            raise DataError(f"{lengths[0]} examples are more than the 2**31 - 1 that index_shuffle orders")
        self._arrays = arrays
        self._size = lengths[0]
        self._shuffle = shuffle

    @property
    def size(self) -> int:
        return self._size

    @property
    def arrays(self) -> Any:
        """The arrays, as NumPy."""
        return self._arrays

    @property
    def element_spec(self) -> Any:
        return tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape[1:], tf.as_dtype(array.dtype)), self._arrays
        )

    def batches(self, *, batch_size: int, seed: int, position: int = 0) -> tf.data.Dataset:
        arrays, size = self._tensors(), self._size
        # A pipeline pays per operation, not per byte: several small batches are picked at once and then told apart.
        together = max(1, _ROWS_AT_ONCE // batch_size)

        def pick(start: tf.Tensor) -> Any:
            places = start + tf.range(together * batch_size, dtype=tf.int64)
            indices = tf.cast(places % size, tf.int32)
            if self._shuffle:
                indices = shuffled(indices, seed=seed, epochs=places // size, size=size)
            indices = tf.reshape(indices, [together, batch_size])
            return tf.nest.map_structure(lambda array: tf.gather(array, indices), arrays)

        starts = tf.data.Dataset.range(position, np.iinfo(np.int64).max, together * batch_size)
        return starts.map(pick, num_parallel_calls=2).unbatch()

    def one_pass(self, *, batch_size: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(self._tensors()).batch(batch_size)

    def _tensors(self) -> Any:
        # On the host: a data pipeline runs there, and arrays need not fit into an accelerator's memory.
        with tf.device("CPU:0"):
            return tf.nest.map_structure(tf.constant, self._arrays)


def shuffled(indices: tf.Tensor, *, seed: int, epochs: tf.Tensor, size: int) -> tf.Tensor:
    """Where the order of (seed, epoch) sends each index below `size`.

    Args:
      indices: int32 of shape [n].
      epochs: the epoch of each index, int64 of shape [n].
    """
    seeds = tf.stack(
        [
            tf.fill(tf.shape(indices), seed & 0x7FFFFFFF),
            tf.fill(tf.shape(indices), (seed >> 31) & 0x7FFFFFFF),
            tf.cast(epochs, tf.int32),
        ],
        axis=1,
    )
    # The raw operation: the public wrapper of 2.9 pads a seed per index as if it were one seed.
    return tf.raw_ops.RandomIndexShuffle(index=indices, seed=seeds, max_index=size - 1)


def is_arrays(data: Any) -> bool:
    """Whether `data` is made of arrays only, nested in tuples, lists and dicts."""
    leaves = tf.nest.flatten(data)
    return bool(leaves) and all(isinstance(leaf, (np.ndarray, tf.Tensor, tf.Variable)) for leaf in leaves)


def _to_array(array: Any) -> np.ndarray:
    return np.asarray(array)


def without_none(x: Any, y: Optional[Any], sample_weight: Optional[Any]) -> Any:
    """Keras's `(x, y, sample_weight)` without what was not given.

    `x` alone where there is nothing else; a list then is the inputs of a model with several, not `(x, y)`.
    """
    if sample_weight is not None:
        return (x, y, sample_weight)
    if y is not None:
        return (x, y)
    return (x,) if isinstance(x, list) else x
