"""How fast streams of batches are, measured in turns."""

import gc
import time
from typing import Any, Callable, Dict, List, Mapping

import tensorflow as tf

from tpuloop.commands.bench.turns import Lane, Pause, run_for, take_turns

_IDLE = 0.05  # Of a core.
_LONGEST_REST = 1.0  # Seconds.
_TOGETHER = 10


def batches_per_second(
    streams: Mapping[str, Callable[[], Any]], *, repeats: int, slice_seconds: float
) -> Dict[str, List[float]]:
    """Reads every stream for a slice, one after the other, `repeats` times over.

    Args:
      streams: by name, what makes an endless iterator over batches, also one over several devices.
      slice_seconds: about how long a slice takes.

    Returns:
      For each stream its batches a second in each repeat.
    """
    lanes = {name: Lane(_reading(make)) for name, make in streams.items()}
    # What was read ahead is read away before the clock starts, here and before every slice.
    half = slice_seconds / 2
    steps = {}
    for name, lane in lanes.items():
        lane.slice(_TOGETHER)
        run_for(lane, seconds=half, together=_TOGETHER)
        # The slower of two, as what is still read ahead would make a slice far too long.
        rate = min(run_for(lane, seconds=half, together=_TOGETHER) for _ in range(2))
        steps[name] = max(_TOGETHER, round(slice_seconds * rate))
    seconds = take_turns(lanes, steps=steps, repeats=repeats, rest=rest, untimed_seconds=half)
    for lane in lanes.values():
        lane.end()
    gc.collect()  # An iterator over a generator must go before Python does, or TensorFlow warns.
    return {name: [1 / value for value in values] for name, values in seconds.items()}


def rest() -> None:
    """Waits until what reads ahead has come to its end, so that it takes no time of whoever is next."""
    deadline = time.monotonic() + _LONGEST_REST
    while time.monotonic() < deadline:
        used, began = time.process_time(), time.monotonic()
        time.sleep(0.03)
        if time.process_time() - used < _IDLE * (time.monotonic() - began):
            return


def _reading(make: Callable[[], Any]) -> Callable[[int, Pause], None]:
    def work(batches: int, pause: Pause) -> None:
        iterator = make()

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
