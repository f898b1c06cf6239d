"""Several sources in one stream, by weights."""

import logging
import math
from typing import Any, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.faults import find_fault
from tpuloop.data.order import window_orders
from tpuloop.data.rebatch import Chunk, rebatched
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Origin, Source

logger = logging.getLogger("tpuloop")

_FINEST = 1000  # Weights are fractions of at most so many parts.
_ROUND = 1024  # About how many examples are shuffled with each other.


class MixtureSource(Source):
    """Examples of several sources, so many of each as their weights say.

    The stream is made of rounds. In each, every source has its exact share, in an order that is a function of (seed,
    round); so a position is found by arithmetic. Every source goes through epochs of its own, in which each of its
    examples comes once. An epoch of the mixture is as many examples as all sources hold together.

    A round of up to 1024 examples, or as many as the weights need, lies in memory, a few of them at a time. So mix what
    is read, and put the functions that make examples large, such as decoding, over the mixture.

    Args:
      sources: with one structure of examples.
      weights: how often each is drawn from; they need not sum to 1. By default the sizes.

    Raises:
      DataError: for weights that are not positive numbers of at least a thousandth of their sum, one for each source,
        and sources of different structures.
    """

    def __init__(self, sources: Sequence[Source], *, weights: Sequence[float] = ()):
        self._sources = list(sources)
        self._weights = weights = list(weights) or [source.size for source in self._sources]
        if not self._sources or len(weights) != len(self._sources):
            raise DataError(f"a mixture has {len(self._sources)} sources and {len(weights)} weights: give one for each")
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise DataError(f"the weights of a mixture must be positive numbers; they are {list(weights)}")
        specs = [source.element_spec for source in self._sources]
        for number, spec in enumerate(specs[1:], 1):
            if spec != specs[0]:
                raise DataError(f"source {number} of a mixture gives {spec}, and source 0 gives {specs[0]}")
        self._shares = _shares(weights)
        self._sizes = [source.size for source in self._sources]
        self._split_said = False

    @property
    def size(self) -> int:
        return sum(self._sizes)

    @property
    def shares(self) -> Tuple[int, ...]:
        """Examples of each source in a round."""
        return tuple(self._shares)

    @property
    def element_spec(self) -> Any:
        return self._sources[0].element_spec

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        shard.rows(batch_size, position=position)
        if shard.count > 1 and not self._split_said:
            self._split_said = True
            logger.info("a mixture on %d hosts is split by example: each host reads all of its sources", shard.count)
        length = sum(self._shares)
        begun, entered = divmod(position, length)
        streams = [
            source.numbered_batches(batch_size=share, seed=seed + place, position=begun * share)
            for place, (source, share) in enumerate(zip(self._sources, self._shares))
        ]
        bases = np.cumsum([0, *self._sizes[:-1]])

        @as_written
        def mixed(number: tf.Tensor, parts: Any) -> Any:
            batches, origins = zip(*parts)
            numbers = [origin.numbers + base for origin, base in zip(origins, bases)]
            origin = Origin(tf.concat([origin.epochs for origin in origins], axis=0), tf.concat(numbers, axis=0))
            rows = tf.nest.map_structure(lambda *leaves: tf.concat(leaves, axis=0), *batches)
            order = window_orders(tf.zeros_like(number), number, tf.zeros([1], tf.int64), seed=seed, size=length)[0]
            first = tf.where(number == begun, entered, 0)
            # Of global batches, whose first row is at a multiple of the hosts, this host's.
            here = number * length + tf.range(length, dtype=tf.int64)
            mine = tf.boolean_mask(order[first:], here[first:] % shard.count == shard.index)
            return Chunk((rows, origin), mine)

        rounds = tf.data.Dataset.zip(tuple(streams)).enumerate(begun).map(mixed, num_parallel_calls=2)
        return rebatched(rounds, shard.rows(batch_size))

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        passes: List[tf.data.Dataset] = []
        for source, base in zip(self._sources, np.cumsum([0, *self._sizes[:-1]])):
            renumbered = _renumbered(int(base))
            passes.append(source.numbered_pass(batch_size=batch_size).map(renumbered))
        chunks = passes[0]
        for more in passes[1:]:
            chunks = chunks.concatenate(more)
        batches = rebatched(chunks, batch_size, size=self.size)
        shard.rows(batch_size)
        own = as_written(lambda *batch: tf.nest.map_structure(lambda leaf: leaf[shard.index :: shard.count], batch))
        return batches if shard.count == 1 else batches.map(own)

    def cached(self) -> "MixtureSource":
        # Each by itself: as one array they would be drawn by their sizes, and not by the weights.
        return MixtureSource([source.cached() for source in self._sources], weights=self._weights)

    def whereabouts(self, number: int) -> str:
        for source, size in zip(self._sources, self._sizes):
            if number < size:
                return source.whereabouts(number)
            number -= size
        return super().whereabouts(number)

    def find_fault(self) -> Any:
        before = 0
        for source in self._sources:
            fault = find_fault(source, lambda stage: stage.numbered_pass(batch_size=256))
            if fault is not None:
                return fault._replace(number=before + fault.number)
            before += source.size
        return None


def _renumbered(base: int) -> Any:
    @as_written
    def renumbered(batch: Any, origin: Origin) -> Chunk:
        return Chunk((batch, Origin(origin.epochs, origin.numbers + base)), tf.range(tf.size(origin.numbers)))

    return renumbered


def _shares(weights: Sequence[float]) -> List[int]:
    """How many of each in a round: the weights to a thousandth, in whole numbers."""
    total = sum(weights)
    parts = [round(_FINEST * weight / total) for weight in weights]
    if min(parts) < 1:
        least = min(range(len(weights)), key=lambda place: weights[place])
        raise DataError(
            f"source {least} of a mixture has {weights[least] / total:.2g} of the weight, and the least share is "
            f"1/{_FINEST}: give weights that are closer to each other"
        )
    common = parts[0]
    for part in parts[1:]:
        common = math.gcd(common, part)
    parts = [part // common for part in parts]
    times = max(1, _ROUND // sum(parts))
    return [part * times for part in parts]
