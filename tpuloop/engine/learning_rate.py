"""Where an optimizer keeps its learning rate, whichever of Keras's optimizers it is."""

from typing import Any, Optional

import tensorflow as tf
from tensorflow.keras.optimizers.schedules import LearningRateSchedule


def learning_rate_schedule(optimizer: Optional[tf.keras.optimizers.Optimizer]) -> Optional[LearningRateSchedule]:
    """The schedule that gives the learning rate of each step, `schedule(optimizer.iterations)`; None without one."""
    rate = held_learning_rate(optimizer)
    return rate if isinstance(rate, LearningRateSchedule) else None


def held_learning_rate(optimizer: Optional[tf.keras.optimizers.Optimizer]) -> Any:
    """The schedule, variable or number that the optimizer takes its learning rate from; None where it has none.

    An optimizer that scales the loss is looked through. The attribute `learning_rate` of experimental optimizers is
    never the schedule, but a variable with the value of the last step.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if isinstance(optimizer, tf.keras.optimizers.experimental.Optimizer):
        return getattr(optimizer, "_learning_rate", None)
    return getattr(optimizer, "learning_rate", None)
