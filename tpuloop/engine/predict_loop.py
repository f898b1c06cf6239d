"""Predictions batch by batch, in the order of the data."""

import functools
from typing import Any, Callable, Iterator, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.engine.autograph import converting_for_keras
from tpuloop.engine.randomness import StepSeed, step_seed
from tpuloop.engine.step import compiled_by_xla, split_over_replicas
from tpuloop.errors import usage_errors_as_raised


class PredictLoop:
    """Runs `replica_step(batch)` on every replica, one compiled call per global batch.

    Args:
      strategy: whose replicas run.
      replica_step: replica context; maps a replica's batch to nested outputs whose first dimension is the batch.
      seed: as in training, for models that are random when they predict.
      split: as in `GlobalStep`.
      compiled: False runs eagerly, for debugging.
      jit_compile: as in `GlobalStep`.
    """

    def __init__(
        self,
        *,
        strategy: tf.distribute.Strategy,
        replica_step: Callable[[Any], Any],
        seed: int,
        split: bool = False,
        compiled: bool = True,
        jit_compile: bool = False,
    ):
        self._strategy = strategy
        self._on_each = compiled_by_xla(self._on_replica) if jit_compile else self._on_replica
        self._replica_step = replica_step
        self._seed = seed
        self._split = split
        self._one = self._global_step
        if compiled:  # A partial for the reason that GraphLoop gives.
            self._one = tf.function(functools.partial(self._global_step), autograph=False)

    def outputs(self, iterator: Any) -> Iterator[Any]:
        """The outputs of each global batch as NumPy, without the padded rows."""
        for number, (batch, mask) in enumerate(iterator):
            with usage_errors_as_raised():
                per_replica = self._one(batch, mask, tf.constant(number, tf.int64))
            outputs, mask = tf.nest.map_structure(self._joined, per_replica)
            yield _rows_of(outputs, mask > 0)

    def _global_step(self, batch: Any, mask: Any, number: tf.Tensor) -> Tuple[Any, Any]:
        if self._split:
            batch, mask = split_over_replicas((batch, mask), self._strategy)
        return self._strategy.run(self._on_each, args=(batch, mask, number))

    def _on_replica(self, batch: Any, mask: tf.Tensor, number: tf.Tensor) -> Tuple[Any, tf.Tensor]:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        with step_seed(StepSeed.of(self._seed, number, replica)), converting_for_keras():
            return self._replica_step(batch), mask

    def _joined(self, value: Any) -> np.ndarray:
        """Replicas hold consecutive parts of the global batch, so their outputs in order are its outputs in order."""
        return np.concatenate([part.numpy() for part in self._strategy.experimental_local_results(value)])


def _rows_of(outputs: Any, chosen: np.ndarray) -> Any:
    return tf.nest.map_structure(lambda output: output[chosen], outputs)
