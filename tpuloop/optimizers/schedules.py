"""Learning rates that follow the global step, and so go on where they were after a resume."""

from typing import Any, Dict, Optional, Union

import tensorflow as tf
from tensorflow.keras.optimizers import schedules
from tensorflow.keras.optimizers.schedules import LearningRateSchedule

from tpuloop.optimizers.schedule_settings import ScheduleSettings


def make_schedule(
    settings: ScheduleSettings, *, peak: float, run_steps: Optional[int] = None
) -> Union[float, LearningRateSchedule]:
    """The learning rate of each step.

    With s the steps done before (`optimizer.iterations`, 0 in the first step), w the warm-up, d the length of the decay
    and e the end factor, the rate is

      peak * s / w                                          while s < w, as in BERT's release: the first step has rate 0
      peak                                                  constant
      peak * (e + (1 - e) * (1 + cos(pi * t)) / 2)          cosine (arXiv:1608.03983, without restarts)
      peak * (e + (1 - e) * (1 - t))                        linear
      peak * (e + (1 - e) * (1 - t) ** power)               polynomial
      peak * factors[i]                                     piecewise, for the last i with boundaries[i] <= s

    where t = min(s - w, d) / d. So the decay begins at the end of the warm-up, with the peak. In BERT's release it
    begins at step 0, hidden by the warm-up, and the rate drops to peak * (1 - w / steps) where that ends.

    Args:
      settings: which schedule.
      peak: the rate at the end of the warm-up.
      run_steps: the steps of the run, for the default length of a decay.

    Returns:
      A schedule, or the peak itself where nothing ever changes it.

    Raises:
      UsageError: where the length of the decay is not known.
    """
    warmup = settings.warmup_steps
    after: Union[float, LearningRateSchedule] = peak
    if settings.name == "cosine":
        after = schedules.CosineDecay(peak, settings.decay_length(run_steps), alpha=settings.end_factor)
    elif settings.name in ("linear", "polynomial"):
        after = schedules.PolynomialDecay(
            peak, settings.decay_length(run_steps), end_learning_rate=peak * settings.end_factor, power=settings.power
        )
    elif settings.name == "piecewise":
        # Keras keeps a value up to and with the boundary.
        boundaries = [boundary - warmup - 1 for boundary in settings.boundaries]
        after = schedules.PiecewiseConstantDecay(boundaries, [peak, *(peak * factor for factor in settings.factors)])
    elif not warmup:
        return peak
    return Warmup(after, warmup_steps=warmup)


@tf.keras.utils.register_keras_serializable(package="tpuloop")
class Warmup(LearningRateSchedule):
    """A rate that rises from 0 in proportion to the steps done, and then goes as another schedule does from its start.

    The steps of the warm-up are taken off in integers, so that none is lost where float32 no longer tells one step from
    the next, at 2**24. (Keras's optimizers, but for its experimental ones, ask for the rate of a step in float32.)

    Args:
      after: the schedule, or the constant rate, that follows; what it begins with is the peak.
      warmup_steps: the length of the warm-up; 0 for none.
    """

    def __init__(self, after: Union[float, LearningRateSchedule], *, warmup_steps: int):
        super().__init__()
        self.after = after
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> tf.Tensor:
        """The rate of the step that follows `step` steps; float32 scalar."""
        step = tf.cast(step, tf.int64)
        since = tf.maximum(step - self.warmup_steps, 0)
        rate = tf.cast(self.after(since) if callable(self.after) else self.after, tf.float32)
        if not self.warmup_steps:
            return rate
        # During the warm-up `rate` is that of the schedule's start, which is the peak.
        return rate * tf.cast(tf.minimum(step, self.warmup_steps), tf.float32) / float(self.warmup_steps)

    def get_config(self) -> Dict[str, Any]:
        """What `from_config` makes the same schedule of."""
        after = schedules.serialize(self.after) if callable(self.after) else self.after
        return {"after": after, "warmup_steps": self.warmup_steps}

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> "Warmup":
        """The inverse of `get_config`."""
        after = config["after"]
        return cls(
            schedules.deserialize(after) if isinstance(after, dict) else after, warmup_steps=config["warmup_steps"]
        )
