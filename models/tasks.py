"""What a kind of model is trained on: its loss and its metrics."""

import dataclasses
from typing import Callable, Dict, List

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Task:
    """Attributes:
    loss: makes the loss; called in the strategy's scope, like `metrics`.
    metrics: makes the metrics.
    """

    loss: Callable[[], tf.keras.losses.Loss]
    metrics: Callable[[], List[tf.keras.metrics.Metric]]


TASKS: Dict[str, Task] = {
    # Labels are class numbers of shape [batch], outputs are logits of shape [batch, classes].
    "classification": Task(
        loss=lambda: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=lambda: [tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    ),
}
