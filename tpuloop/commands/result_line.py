"""The lines that commands print of losses and metrics."""

from typing import Any, Mapping


def baseline_line(baseline: Mapping[str, float]) -> str:
    """Such as "a guess that looks at no input: accuracy 0.1640"."""
    return f"a guess that looks at no input: {_listed(baseline)}"


def result_line(kind: str, values: Mapping[str, Any], *, step: int) -> str:
    """Such as "held-out accuracy 0.9722, loss 0.1098 at step 1500"; what is no number is left out."""
    return f"{kind} {_listed(values)} at step {step}"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in sorted(values.items()) if isinstance(value, float))
