"""The words of a progress line. Pure."""

from typing import Any, Mapping, Optional

_GAP = "  "


def step_line(
    *,
    step: int,
    total: Optional[int],
    steps_per_second: Optional[float],
    global_batch: Optional[int],
    seconds_left: Optional[float],
    values: Mapping[str, Any],
) -> str:
    """One line: the step, its rate, the time left, and the values; what is None is left out."""
    parts = [f"step {step}" if total is None else f"step {step}/{total}"]
    if steps_per_second is not None:
        parts.append(f"{number(steps_per_second)} steps/s")
        if global_batch is not None:
            parts.append(f"{number(steps_per_second * global_batch)} examples/s")
    if seconds_left is not None:
        parts.append(f"ETA {duration(seconds_left)}")
    return _GAP.join(parts + _named(values, prefix=""))


def evaluation_line(*, step: int, values: Mapping[str, Any]) -> str:
    """One line: the step and what an evaluation gave after it."""
    return _GAP.join([f"step {step}", *_named(values, prefix="val_")])


def number(value: float) -> str:
    """Four digits, and never an exponent for what is long but not large: 0.01234, 812.3, 52310."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """0:07, 12:34, 1:02:03, 2d 1:02:03."""
    whole = int(seconds + 0.5)
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    text = f"{hours}:{minutes:02d}:{rest:02d}" if whole >= 3600 else f"{minutes}:{rest:02d}"
    return f"{days}d {text}" if days else text


def _named(values: Mapping[str, Any], *, prefix: str) -> list:
    """`name value` for each scalar; a metric of several values (a confusion matrix) has no place in one line."""
    named = []
    for name, value in values.items():
        if getattr(value, "shape", ()) == () and not isinstance(value, (list, tuple, dict)):
            named.append(f"{prefix}{name} {number(float(value))}")
    return named
