"""Times the input pipelines against each other in this process."""

import functools
from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from tpuloop.commands.bench.input_files import TokenFiles
from tpuloop.commands.bench.reader_names import HAND_TUNED
from tpuloop.commands.bench.readers import TUNINGS, hand_tuned, readers
from tpuloop.commands.bench.stream_rates import batches_per_second

_CHECKED = 3  # Batches of each.
_TO_TRY = 3  # Slices of each tuning.


class Mismatch(RuntimeError):
    """A pipeline gave something else than the examples in the files."""


def race(files: TokenFiles, *, batch: int, shuffled: int, repeats: int, slice_seconds: float) -> Dict[str, Any]:
    """Reads for a slice through every pipeline, one after the other, `repeats` times over.

    Args:
      shuffled: examples in the shuffle buffer of the hand-tuned pipeline.
      slice_seconds: about how long a slice takes.

    Returns:
      Plain data: `examples_per_second`, for each pipeline in each repeat; `tuning`, the fastest of those that were
      tried for the hand-tuned one; `tried`, the rate of each.

    Raises:
      Mismatch: where a pipeline gives other examples than those in the files.
    """
    tunings = {str(tuning): hand_tuned(files, tuning, batch=batch, shuffled=shuffled) for tuning in TUNINGS}
    tried = _rates(tunings, repeats=min(_TO_TRY, repeats), slice_seconds=slice_seconds / 2, batch=batch)
    best = max(tried, key=lambda name: float(np.median(tried[name])))
    pipelines = {**readers(files, batch=batch), HAND_TUNED: tunings[best]}
    for name, dataset in pipelines.items():
        _check(dataset, files.ids, what=name)
    return {
        "examples_per_second": _rates(pipelines, repeats=repeats, slice_seconds=slice_seconds, batch=batch),
        "tuning": best,
        "tried": {name: float(np.median(rates)) for name, rates in tried.items()},
    }


def _rates(
    pipelines: Mapping[str, tf.data.Dataset], *, repeats: int, slice_seconds: float, batch: int
) -> Dict[str, List[float]]:
    iterators = {name: functools.partial(iter, dataset) for name, dataset in pipelines.items()}
    rates = batches_per_second(iterators, repeats=repeats, slice_seconds=slice_seconds)
    return {name: [batch * rate for rate in values] for name, values in rates.items()}


def _check(dataset: tf.data.Dataset, ids: np.ndarray, *, what: str) -> None:
    for batch in dataset.take(_CHECKED):
        if not np.array_equal(batch["ids"], ids[batch["label"]]):
            raise Mismatch(f"{what} gave other examples than those in the files: not the same work")
