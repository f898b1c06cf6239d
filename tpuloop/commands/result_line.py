"""The one line that a command prints of a loss and metrics."""

from typing import Any, Mapping


def result_line(kind: str, values: Mapping[str, Any], *, step: int) -> str:
    """Such as "held-out accuracy 0.9722, loss 0.1098 at step 1500"; what is no number is left out."""
    listed = ", ".join(f"{name} {value:.4f}" for name, value in sorted(values.items()) if isinstance(value, float))
    return f"{kind} {listed} at step {step}"
