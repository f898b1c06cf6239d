"""What the tables of all measurements have in common: the machine, and numbers beside their targets. Pure."""

from typing import Any, Dict, List, Optional

from tpuloop.commands.bench.spread import Spread

_BUSY = 0.25  # Load a core.


def machine_lines(machine: Dict[str, Any]) -> List[str]:
    """What was measured on; and a second line where it was busy with something else."""
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, TensorFlow {machine['tensorflow']}, Python {machine['python']}, "
        f"load {machine['load']:.1f} at the start"
    ]
    if machine["load"] > _BUSY * machine["cores"]:
        lines.append(
            "The machine was busy with something else: expect wide quartiles, and run it again when it is not."
        )
    return lines


def row(name: str, value: str, target: str = "", fits: Optional[bool] = None) -> str:
    """A line of a table: what, its value, the target and whether it is met, if there is one."""
    verdict = "" if fits is None else "ok" if fits else "MISSED"
    return f"  {name:<57} {value:<28} {target:<9} {verdict}".rstrip()


def fits(value: float, sign: str, bound: Optional[float]) -> Optional[bool]:
    """Whether a value is "<=" or ">=" its bound; None where there is none."""
    if bound is None:
        return None
    return value <= bound if sign == "<=" else value >= bound


def spread_text(spread: Spread, digits: str) -> str:
    """Such as "2.0 [1.9, 2.1]" for the digits ".1f"."""
    return f"{spread.median:{digits}} [{spread.low:{digits}}, {spread.high:{digits}}]"
