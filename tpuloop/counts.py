"""Numbers of things: integers of at least 1, of Python's kind or NumPy's."""

import numbers
from typing import Any

from tpuloop.errors import UsageError


def check_count(name: str, value: Any, *, or_else: str = "") -> int:
    """`value` as a Python integer.

    Args:
      name: of the argument, for the message.
      or_else: what else is allowed, such as ", or None".

    Raises:
      UsageError: where it counts nothing.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise UsageError(f"{name} must be an integer of at least 1{or_else}; it is {value!r}")
    return int(value)
