"""Sources with a function over another one's batches or examples."""

import abc
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

    @property
    def remedy(self) -> str:
        return self._source.remedy

    def whereabouts(self, number: int) -> str:
        return self._source.whereabouts(number)

    def stages(self) -> List[Tuple[str, Source]]:
        return [*self._source.stages(), (self._name, self)]

    @abc.abstractmethod
    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        """The function over a stream of `(batch, Origin)`.

        Args:
          seed: of the run.
          rows: in a batch.
          full: whether all batches have as many.
        """


class BatchMap(Map):
    """`Source.map_batches`."""

    def cached(self) -> Source:
        seeded = any(isinstance(stage, (SeededBatchMap, ExampleMap)) for _, stage in self._source.stages())
        return self.over(self._source.cached()) if seeded else super().cached()  # As ExampleMap.

    @property
    def element_spec(self) -> Any:
        return _example_of(self._source.element_spec, self._function, seeded=False)

    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        # Not `as_written`: the function is the user's, and may want AutoGraph.
        return dataset.map(
            lambda batch, origin: (self._function(batch), origin),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )


class SeededBatchMap(Map):
    """`Source.map_seeded_batches`."""

    @property
    def element_spec(self) -> Any:
        return _example_of(self._source.element_spec, self._function, seeded=True)

    def cached(self) -> Source:
        return self.over(self._source.cached())  # As ExampleMap.

    def mapped(self, dataset: tf.data.Dataset, *, seed: int, rows: int, full: bool) -> tf.data.Dataset:
        return dataset.map(
            lambda batch, origin: (self._function(batch, example_seeds(*origin, seed=seed)), origin),
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


def _example_of(spec: Any, function: Callable[..., Any], *, seeded: bool) -> Any:
    """The structure of one example of what a function makes of batches of `spec`."""
    batch = tf.nest.map_structure(lambda leaf: tf.TensorSpec([None, *leaf.shape], leaf.dtype), spec)
    arguments = (batch, tf.TensorSpec([None, 2], tf.int32)) if seeded else (batch,)
    result = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=arguments).map(function).element_spec
    return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), result)
