"""One evaluation: a pass over held-out data in compiled calls."""

from typing import Any, Dict, Iterable, Optional, Union

import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.feed import Feed
from tpuloop.engine.metrics import set_aside
from tpuloop.engine.stop import StopFlag
from tpuloop.engine.trace import LastValues, RunningMeans
from tpuloop.engines import StepLoop
from tpuloop.hooks import Hooks

# Bounds the memory of a step trace where the length of the data is not known.
_STEPS_PER_CALL = 1000


def run_evaluation(
    engine: StepLoop,
    *,
    feed: Feed,
    iterator: Any,
    hooks: Hooks,
    metrics: Iterable[tf.keras.metrics.Metric],
    means: Union[RunningMeans, LastValues],
    stop: StopFlag,
    strategy: tf.distribute.Strategy,
) -> Optional[Dict[str, float]]:
    """The logs of one pass over `iterator`; None if a stop was asked for before its end.

    Args:
      engine: the loop around the step.
      feed: what `iterator` reads.
      hooks: called with Keras's test hooks, batch hooks once a compiled call.
      metrics: those the step updates; their state before is put back afterwards.
      means: takes in the step's outputs.

    Raises:
      DataError: for data without a batch.
    """
    done, logs = 0, {}
    with set_aside(metrics, strategy):
        hooks.call("on_test_begin", {})
        while feed.steps is None or done < feed.steps:
            hooks.call("on_test_batch_begin", done, {})
            left = _STEPS_PER_CALL if feed.steps is None else feed.steps - done
            with feed.naming_faults():
                call = engine.run(iterator, done=done, steps=min(left, _STEPS_PER_CALL))
            if stop.is_set():
                return None
            done += len(call.trace)
            means.add(call.trace)
            logs = {**means.result(), **call.results}
            if len(call.trace):
                hooks.call("on_test_batch_end", done - 1, logs)
            if call.data_ended:
                break
        if not done:
            raise DataError("the evaluation data is empty: it gave no batch")
        hooks.call("on_test_end", logs)
    return logs
