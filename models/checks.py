"""Checks of a builder's arguments, so that the same mistake gets the same message everywhere. Pure Python."""

import numbers
from typing import Any, Iterable


def is_size(value: Any) -> bool:
    """Whether `value` is an integer of at least 1."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1


def check_size(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is an integer of at least 1."""
    if not is_size(value):
        raise ValueError(f"{name} must be an integer of at least 1; it is {value!r}")


def check_share(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is a number of at least 0 and below 1."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= float(value) < 1:
        raise ValueError(f"{name} must be a number of at least 0 and below 1; it is {value!r}")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    choices = list(choices)  # A dict would take only what can be hashed.
    if value not in choices or isinstance(value, float):  # 50.0 equals 50, but is no integer.
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}; it is {value!r}")
