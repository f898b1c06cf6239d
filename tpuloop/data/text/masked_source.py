"""Sequences whose tokens are masked when they are read, anew in every epoch."""

from typing import Any, Dict

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.source import Source
from tpuloop.data.text.masking import Masking
from tpuloop.data.text.masking_in_graph import mask_in_graph


def masked_source(source: Source, *, masking: Masking) -> Source:
    """Another source's examples with masks that are functions of (seed, epoch, example), as its order is.

    A pass for evaluation has the same masks every time.

    Args:
      source: of dicts with `input_ids` and `input_mask`, int32 of shape [sequence_length].
      masking: how to mask.

    Raises:
      DataError: where the examples have no such features.
      UsageError: where `masking.max_predictions` is more than the sequence length.
    """
    spec = source.element_spec
    for name in ("input_ids", "input_mask"):
        leaf = spec.get(name) if isinstance(spec, dict) else None
        if leaf is None or leaf.dtype != tf.int32 or leaf.shape.rank != 1 or leaf.shape[0] is None:
            found = "not there" if leaf is None else f"{leaf.dtype.name} of shape {leaf.shape}"
            raise DataError(f"masking needs the feature {name!r}, int32 of shape [sequence_length]; it is {found}")
    masking.predictions(spec["input_ids"].shape[0])

    @as_written
    def mask(batch: Dict[str, Any], seeds: tf.Tensor) -> Dict[str, Any]:
        return mask_in_graph(batch, seeds=seeds, masking=masking)

    return source.map_seeded_batches(mask, name="mask")
