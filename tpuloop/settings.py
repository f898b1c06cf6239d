"""How a loop runs, checked when made."""

import dataclasses
import numbers
from typing import Optional, Union

from tpuloop.counts import check_count
from tpuloop.errors import UsageError

LOOPS = ("graph", "host")


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """How a loop runs; what it computes is the loop's own business.

    Attributes:
      seed: of the data's order and of random layers and draws. Initial weights come from
        `tf.keras.utils.set_random_seed`, before the model is built.
      steps_per_loop: the most steps in one compiled call, or "auto" for calls of about a second.
      loop: "graph" compiles calls of many steps; "host" runs each step from Python, for debugging.
      clip_norm: the largest global norm of the summed gradient, or None.
      accumulate_steps: the parts into which each replica's batch is split; gradients are accumulated over them, and one
        update follows with the gradient of the whole batch.
      ema_decay: decay of an exponential moving average of the model's weights (`engine/average.py`), which evaluation
        and `predict` then use; or None.
      save_every: steps between checkpoints, or None for only one at the end; needs a workdir.
      keep: checkpoints that stay, the newest ones.

    Raises:
      ValueError: naming the first setting that makes no sense.
    """

    seed: int = 0
    steps_per_loop: Union[int, str] = "auto"
    loop: str = "graph"
    clip_norm: Optional[float] = None
    accumulate_steps: int = 1
    ema_decay: Optional[float] = None
    save_every: Optional[int] = None
    keep: int = 3

    def __post_init__(self):
        if isinstance(self.seed, bool) or not isinstance(self.seed, numbers.Integral) or not 0 <= self.seed < 2**62:
            raise UsageError(f"seed must be an integer from 0 to 2**62 - 1; it is {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))
        if self.steps_per_loop != "auto":
            self._count("steps_per_loop", or_else=', or "auto"')
        if self.loop not in LOOPS:
            raise UsageError(f"loop must be one of {', '.join(LOOPS)}; it is {self.loop!r}")
        if self.clip_norm is not None and not (isinstance(self.clip_norm, numbers.Real) and self.clip_norm > 0):
            raise UsageError(f"clip_norm must be a positive number, or None; it is {self.clip_norm!r}")
        self._count("accumulate_steps")
        if self.ema_decay is not None and not (isinstance(self.ema_decay, numbers.Real) and 0 < self.ema_decay < 1):
            raise UsageError(f"ema_decay must be a number above 0 and below 1, or None; it is {self.ema_decay!r}")
        if self.save_every is not None:
            self._count("save_every", or_else=", or None")
        self._count("keep")

    def _count(self, name: str, *, or_else: str = "") -> None:
        object.__setattr__(self, name, check_count(name, getattr(self, name), or_else=or_else))
