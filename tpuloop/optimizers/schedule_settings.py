"""How the learning rate goes over a run, as a recipe says it; checked without TensorFlow."""

import dataclasses
import numbers
from typing import Any, Dict, Mapping, Optional, Tuple

from tpuloop.counts import check_count
from tpuloop.errors import UsageError, suggestion

# What each schedule takes beside warmup_steps.
ARGUMENTS: Dict[str, Tuple[str, ...]] = {
    "constant": (),
    "cosine": ("decay_steps", "end_factor"),
    "linear": ("decay_steps", "end_factor"),
    "polynomial": ("decay_steps", "end_factor", "power"),
    "piecewise": ("boundaries", "factors"),
}


@dataclasses.dataclass(frozen=True)
class ScheduleSettings:
    """A linear warm-up to the peak learning rate, and what follows it; `schedules.make_schedule` has the formulas.

    Attributes:
      name: "constant", "cosine", "linear", "polynomial" or "piecewise".
      warmup_steps: steps of the warm-up; 0 for none.
      decay_steps: steps from the end of the warm-up to the end of the decay; None for the rest of the run.
      end_factor: what the decay ends at, as a share of the peak.
      power: of the polynomial decay.
      boundaries: steps, counted from the start of the run, from which on the factor of the same place counts.
      factors: shares of the peak, as many as boundaries.

    Raises:
      UsageError: naming the first field that makes no sense.
    """

    name: str
    warmup_steps: int = 0
    decay_steps: Optional[int] = None
    end_factor: float = 0.0
    power: float = 1.0
    boundaries: Tuple[int, ...] = ()
    factors: Tuple[float, ...] = ()

    def __post_init__(self):
        if self.name not in ARGUMENTS:
            listed = ", ".join(ARGUMENTS)
            raise UsageError(
                f"schedule {self.name!r} is unknown: use one of {listed}{suggestion(self.name, ARGUMENTS)}"
            )
        if self.warmup_steps != 0 or isinstance(self.warmup_steps, bool):
            self._set("warmup_steps", check_count(self._named("warmup_steps"), self.warmup_steps, or_else=", or 0"))
        if self.decay_steps is not None:
            self._set("decay_steps", check_count(self._named("decay_steps"), self.decay_steps, or_else=", or None"))
        if not _is_number(self.end_factor) or not 0 <= self.end_factor <= 1:
            raise UsageError(f"{self._named('end_factor')} must be a number from 0 to 1; it is {self.end_factor!r}")
        if not _is_number(self.power) or not 0 < self.power < float("inf"):
            raise UsageError(f"{self._named('power')} must be a positive number; it is {self.power!r}")
        if self.name == "piecewise":
            self._check_pieces()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "ScheduleSettings":
        """The settings that a recipe's mapping gives.

        Raises:
          UsageError: for fields that make none, also where the schedule of that name has no use for one.
        """
        if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
            raise UsageError(f"schedule must be a mapping with a name, such as {{'name': 'cosine'}}; it is {fields!r}")
        name = fields["name"]
        taken = ("name", "warmup_steps", *ARGUMENTS.get(name, fields))
        for field in fields:
            if field not in taken:
                raise UsageError(f"schedule {name!r} takes no argument {field!r}{suggestion(field, taken)}")
        return cls(**fields)

    def decay_length(self, run_steps: Optional[int]) -> int:
        """Steps of the decay in a run of so many.

        Raises:
          UsageError: where neither says how many.
        """
        if self.decay_steps is not None:
            return self.decay_steps
        if run_steps is None:
            raise UsageError(f"{self._named('decay_steps')} must be given, as the steps of the run are not known")
        return max(run_steps - self.warmup_steps, 1)  # A run that ends in its warm-up never gets to the decay.

    def _check_pieces(self) -> None:
        for name in ("boundaries", "factors"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value:
                raise UsageError(f"{self._named(name)} must be a list, and not an empty one; it is {value!r}")
            self._set(name, tuple(value))
        before = self.warmup_steps
        for boundary in self.boundaries:
            if check_count(f"each of {self._named('boundaries')}", boundary) <= before:
                raise UsageError(
                    f"{self._named('boundaries')} must rise, and the first lie after the warm-up of "
                    f"{self.warmup_steps} steps; they are {list(self.boundaries)}"
                )
            before = boundary
        for factor in self.factors:
            if not _is_number(factor) or not 0 <= factor < float("inf"):
                raise UsageError(f"each of {self._named('factors')} must be a number of at least 0; one is {factor!r}")
        if len(self.factors) != len(self.boundaries):
            raise UsageError(
                f"{self._named('factors')} must be as many as the boundaries, {len(self.boundaries)}; "
                f"they are {len(self.factors)}"
            )

    def _named(self, field: str) -> str:
        return f"schedule {self.name!r}: {field}"

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
