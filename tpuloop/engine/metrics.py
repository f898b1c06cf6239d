"""The Keras metrics of a loop: their results by name, and their state put aside during an evaluation."""

import contextlib
from typing import Dict, Iterable, Iterator, List

import tensorflow as tf


def distinct(
    metrics: Iterable[tf.keras.metrics.Metric], *, but: Iterable[object] = ()
) -> List[tf.keras.metrics.Metric]:
    """Each metric once, in the order of its first place, without those in `but`."""
    seen = {id(metric) for metric in but}
    found = []
    for metric in metrics:
        if id(metric) not in seen:
            seen.add(id(metric))
            found.append(metric)
    return found


def results_by_name(metrics: Iterable[tf.keras.metrics.Metric]) -> Dict[str, tf.Tensor]:
    """The results over all replicas; those of a metric with several under their own names. Cross-replica context."""
    results: Dict[str, tf.Tensor] = {}
    for metric in metrics:
        result = metric.result()
        results.update(result if isinstance(result, dict) else {metric.name: result})
    return results


@contextlib.contextmanager
def set_aside(metrics: Iterable[tf.keras.metrics.Metric], strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Resets the metrics, and at the end puts their state back, on every replica to the bit. Eager."""
    metrics = list(metrics)
    variables = [variable for metric in metrics for variable in metric.variables]
    parts = [part for variable in variables for part in strategy.experimental_local_results(variable)]
    values = [tf.identity(part) for part in parts]
    try:
        for metric in metrics:
            metric.reset_state()
        yield
    finally:
        for part, value in zip(parts, values):
            part.assign(value)
