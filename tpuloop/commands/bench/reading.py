"""Times the input pipelines against each other in this process."""

import time
from typing import Any, Callable, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from tpuloop.commands.bench.input_files import TokenFiles
from tpuloop.commands.bench.reader_names import HAND_TUNED
from tpuloop.commands.bench.readers import TUNINGS, hand_tuned, readers
from tpuloop.commands.bench.turns import Lane, Pause, steps_of_a_slice, take_turns

_CHECKED = 3  # Batches of each.
_TO_TRY = 3  # Slices of each tuning.
_IDLE = 0.05  # Of a core.
_LONGEST_REST = 1.0  # Seconds.


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


def rest() -> None:
    """Waits until what reads ahead has come to its end, so that it takes no time of whoever is next."""
    deadline = time.monotonic() + _LONGEST_REST
    while time.monotonic() < deadline:
        used, began = time.process_time(), time.monotonic()
        time.sleep(0.03)
        if time.process_time() - used < _IDLE * (time.monotonic() - began):
            return


def _rates(
    pipelines: Mapping[str, tf.data.Dataset], *, repeats: int, slice_seconds: float, batch: int
) -> Dict[str, List[float]]:
    lanes = {name: Lane(_reading(dataset)) for name, dataset in pipelines.items()}
    steps = {}
    for name, lane in lanes.items():
        lane.slice(1)
        steps[name] = steps_of_a_slice(lane, seconds=slice_seconds, together=10)
    # What was read ahead during a rest is read away before the clock starts.
    untimed = {name: max(1, count // 3) for name, count in steps.items()}
    seconds = take_turns(lanes, steps=steps, repeats=repeats, rest=rest, untimed=untimed)
    for lane in lanes.values():
        lane.end()
    return {name: [batch / value for value in values] for name, values in seconds.items()}


def _reading(dataset: tf.data.Dataset) -> Callable[[int, Pause], None]:
    def work(batches: int, pause: Pause) -> None:
        iterator = iter(dataset)

        @tf.function
        def read(count: tf.Tensor) -> None:
            for _ in tf.range(count):
                next(iterator)

        # In a compiled loop, as training reads; a concrete function, as TensorFlow warns of many tracings of one.
        compiled = read.get_concrete_function(tf.TensorSpec([], tf.int32))
        while batches:
            compiled(tf.constant(batches))
            batches = pause()

    return work


def _check(dataset: tf.data.Dataset, ids: np.ndarray, *, what: str) -> None:
    for batch in dataset.take(_CHECKED):
        if not np.array_equal(batch["ids"], ids[batch["label"]]):
            raise Mismatch(f"{what} gave other examples than those in the files: not the same work")
