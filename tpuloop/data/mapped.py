"""Sources with a function over another one's batches or examples."""

from typing import Any, Callable, List, Tuple

import tensorflow as tf

from tpuloop.data.order import example_seeds
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Source


class Map(Source):
    """A function over another source.

    Args:
      source: the other one.
      function: over its batches or its examples.
      name: of the stage.
    """

    def __init__(self, source: Source, function: Callable[..., Any], *, name: str):
        self._source = source
        self._function = function
        self._name = name

    @property
    def size(self) -> int:
        return self._source.size

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        inner = self._source.numbered_batches(batch_size=batch_size, seed=seed, position=position, shard=shard)
        return self.mapped(inner, seed=seed, rows=shard.rows(batch_size), full=True)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        inner = self._source.numbered_pass(batch_size=batch_size, shard=shard)
        return self.mapped(inner, seed=0, rows=shard.rows(batch_size), full=False)

    def over(self, source: Source) -> "Map":
        """The same function over another source."""
        return type(self)(source, self._function, name=self._name)

    def whereabouts(self, number: int) -> str:
        return self._source.whereabouts(number)

    def stages(self) -> List[Tuple[str, Source]]:
        return [*self._source.stages(), (self._name, self)]

    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        """The function over a stream of `(batch, Origin)`.

        Args:
          seed: of the run.
          rows: in a batch.
          full: whether all batches have as many.
        """
        raise NotImplementedError


class BatchMap(Map):
    """`Source.map_batches`."""

    @property
    def element_spec(self) -> Any:
        spec = self._source.element_spec
        batch = tf.nest.map_structure(lambda leaf: tf.TensorSpec([None, *leaf.shape], leaf.dtype), spec)
        dataset = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=(batch,))
        return tf.nest.map_structure(
            lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), dataset.map(self._function).element_spec
        )

    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        # Not `as_written`: the function is the user's, and may want AutoGraph.
        return dataset.map(
            lambda batch, origin: (self._function(batch), origin),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )


class ExampleMap(Map):
    """`Source.map_examples`."""

    def cached(self) -> Source:
        # Each epoch draws anew: what it draws from is kept, and not what was drawn once.
        return self.over(self._source.cached())

    @property
    def element_spec(self) -> Any:
        dataset = tf.data.Dataset.from_generator(
            lambda: iter(()), output_signature=(self._source.element_spec, tf.TensorSpec([2], tf.int32))
        )
        return dataset.map(self._function).element_spec

    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        # One by one, so that all cores share the work on one batch.
        examples = dataset.unbatch().map(
            lambda example, origin: (self._function(example, example_seeds(*origin, seed=seed)), origin),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return examples.batch(rows, drop_remainder=full)
