"""Arrays in memory as a source."""

from typing import Any, Callable, Optional, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.order import epoch_orders
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Origin, Source

_ROWS_AT_ONCE = 1024


class ArraySource(Source):
    """Examples that lie in memory, shuffled over the whole of them.

    The order of an epoch is drawn whole when the stream comes to it, which takes about 0.2 us and 30 bytes an example,
    so that entering the stream anywhere costs no more than that.

    Args:
      arrays: nested arrays or tensors, such as `(x, y)` or `(x, y, sample_weight)` or `({"ids": ...}, y)`; the first
        dimension of each counts the examples. Those of float64 become float32 (Keras's floatx), as in Keras. They
        are copied at the first use, once for all; what changes in them later is not seen.
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
            raise DataError(f"{lengths[0]} examples are more than the 2**31 - 1 that can be shuffled")
        self._arrays = arrays
        self._made: Any = None  # Their tensors, from the first use on.
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

    def batches(self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE) -> tf.data.Dataset:
        shard.rows(batch_size, position=position)
        pick, together = self._pick(batch_size, shard)
        indices = self._indices(seed=seed, position=position, count=together * batch_size)
        return indices.map(pick, num_parallel_calls=2).unbatch()

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        shard.rows(batch_size, position=position)
        pick, together = self._pick(batch_size, shard)
        count = together * batch_size

        @as_written
        def with_origin(start: tf.Tensor, indices: tf.Tensor) -> Any:
            def own(rows: tf.Tensor) -> tf.Tensor:
                return tf.reshape(rows, [together, batch_size])[:, shard.index :: shard.count]

            epochs = (start + tf.range(count, dtype=tf.int64)) // self._size
            return pick(indices), Origin(own(epochs), own(tf.cast(indices, tf.int64)))

        starts = tf.data.Dataset.range(position, np.iinfo(np.int64).max, count)
        indices = self._indices(seed=seed, position=position, count=count)
        return tf.data.Dataset.zip((starts, indices)).map(with_origin, num_parallel_calls=2).unbatch()

    def _pick(self, batch_size: int, shard: Shard) -> Tuple[Callable[[tf.Tensor], Any], int]:
        """The rows of several global batches by their indices, and of how many batches."""
        arrays = self._tensors()
        # A pipeline pays per operation, not per byte: several small batches are picked at once and then told apart.
        together = max(1, _ROWS_AT_ONCE // batch_size)

        @as_written
        def pick(indices: tf.Tensor) -> Any:
            indices = tf.reshape(indices, [together, batch_size])[:, shard.index :: shard.count]
            return tf.nest.map_structure(lambda array: tf.gather(array, indices), arrays)

        return pick, together

    def _indices(self, *, seed: int, position: int, count: int) -> tf.data.Dataset:
        """The endless stream of indices from `position` on, `count` at a time."""
        size = self._size
        if not self._shuffle:
            starts = tf.data.Dataset.range(position, np.iinfo(np.int64).max, count)
            in_order = as_written(lambda start: tf.cast((start + tf.range(count, dtype=tf.int64)) % size, tf.int32))
            return starts.map(in_order)
        # Orders are drawn for as much as an epoch holds, so that each is drawn twice at most: where two stretches meet.
        stretch = -(-size // count) * count

        @as_written
        def of_stretch(start: tf.Tensor) -> tf.Tensor:
            first = start // size
            orders = epoch_orders(tf.range(first, (start + stretch - 1) // size + 1), seed=seed, size=size)
            begin = tf.cast(start - first * size, tf.int32)
            return tf.reshape(tf.reshape(orders, [-1])[begin : begin + stretch], [stretch // count, count])

        starts = tf.data.Dataset.range(position, np.iinfo(np.int64).max, stretch)
        return starts.map(of_stretch).prefetch(1).unbatch()

    def one_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        shard.rows(batch_size)
        rows = tf.nest.map_structure(lambda array: array[shard.index :: shard.count], self._tensors())
        return tf.data.Dataset.from_tensor_slices(rows).batch(batch_size // shard.count)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(shard.index, self._size, shard.count).batch(batch_size // shard.count)
        origins = numbers.map(as_written(lambda number: Origin(tf.zeros_like(number), number)))
        return tf.data.Dataset.zip((self.one_pass(batch_size=batch_size, shard=shard), origins))

    def _tensors(self) -> Any:
        if self._made is None:
            # On the host: a data pipeline runs there, and arrays need not fit into an accelerator's memory.
            with tf.init_scope(), tf.device("CPU:0"):
                self._made = tf.nest.map_structure(tf.constant, self._arrays)
            # They show the tensors' own memory, so that nothing is held twice.
            self._arrays = tf.nest.map_structure(np.asarray, self._made)
        return self._made


def is_arrays(data: Any) -> bool:
    """Whether `data` is made of arrays only, nested in tuples, lists and dicts."""
    leaves = tf.nest.flatten(data)
    return bool(leaves) and all(isinstance(leaf, (np.ndarray, tf.Tensor, tf.Variable)) for leaf in leaves)


def _to_array(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(tf.keras.backend.floatx()) if array.dtype == np.float64 else array


def without_none(x: Any, y: Optional[Any], sample_weight: Optional[Any]) -> Any:
    """Keras's `(x, y, sample_weight)` without what was not given.

    `x` alone where there is nothing else; a list then is the inputs of a model with several, not `(x, y)`.
    """
    if sample_weight is not None:
        return (x, y, sample_weight)
    if y is not None:
        return (x, y)
    return (x,) if isinstance(x, list) else x
