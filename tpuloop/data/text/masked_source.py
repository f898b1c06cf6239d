"""A source of sequences whose tokens are masked when they are read, anew in every epoch."""

from typing import Any, List, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.order import example_seeds
from tpuloop.data.shard import WHOLE, Shard
from tpuloop.data.source import Origin, Source
from tpuloop.data.text.masking import Masking
from tpuloop.data.text.masking_in_graph import mask_in_graph


class MaskedSource(Source):
    """Another source's examples with masks that are functions of (seed, epoch, example), as its order is.

    A pass for evaluation has the same masks every time.

    Args:
      source: of dicts with `input_ids` and `input_mask`, int32 of shape [sequence_length].
      masking: how to mask.

    Raises:
      DataError: where the examples have no such features.
      UsageError: where `masking.max_predictions` is more than the sequence length.
    """

    def __init__(self, source: Source, *, masking: Masking):
        spec = source.element_spec
        for name in ("input_ids", "input_mask"):
            leaf = spec.get(name) if isinstance(spec, dict) else None
            if leaf is None or leaf.dtype != tf.int32 or leaf.shape.rank != 1 or leaf.shape[0] is None:
                found = "not there" if leaf is None else f"{leaf.dtype.name} of shape {leaf.shape}"
                raise DataError(f"masking needs the feature {name!r}, int32 of shape [sequence_length]; it is {found}")
        masking.predictions(spec["input_ids"].shape[0])
        self._source = source
        self._masking = masking

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def element_spec(self) -> Any:
        predictions = [self._masking.max_predictions]
        return {
            **self._source.element_spec,
            "masked_lm_positions": tf.TensorSpec(predictions, tf.int32),
            "masked_lm_ids": tf.TensorSpec(predictions, tf.int32),
            "masked_lm_weights": tf.TensorSpec(predictions, tf.float32),
        }

    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        inner = self._source.numbered_batches(batch_size=batch_size, seed=seed, position=position, shard=shard)
        return self._masked(inner, seed=seed)

    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        return self._masked(self._source.numbered_pass(batch_size=batch_size, shard=shard), seed=0)

    def whereabouts(self, number: int) -> str:
        return self._source.whereabouts(number)

    def stages(self) -> List[Tuple[str, Source]]:
        return [*self._source.stages(), ("mask", self)]

    def _masked(self, dataset: tf.data.Dataset, *, seed: int) -> tf.data.Dataset:
        @as_written
        def mask(batch: Any, origin: Origin) -> Any:
            return mask_in_graph(batch, seeds=example_seeds(*origin, seed=seed), masking=self._masking), origin

        return dataset.map(mask, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
