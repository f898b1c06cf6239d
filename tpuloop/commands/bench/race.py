"""Times the loops against each other in this process."""

import tempfile
import time
from typing import Any, Collection, Dict, Mapping, Optional

from tpuloop.commands.bench.competitors import EPOCH, competitors
from tpuloop.commands.bench.turns import Lane
from tpuloop.runtime import Runtime

_TOLERANCE = 1e-4
_TOLERANCE_SHUFFLED = 0.1


def race(
    runtime: Runtime,
    *,
    repeats: int,
    slice_seconds: float,
    steps_per_loop: int,
    per_execution: int,
    check_steps: int,
    rest_seconds: float = 0.05,
) -> Dict[str, Any]:
    """Runs every loop for a slice, one after the other, `repeats` times over.

    Args:
      slice_seconds: about how long a slice takes.
      rest_seconds: before each slice.
      check_steps: the steps that all do first; their loss and accuracy must agree.

    Returns:
      Plain data: `microseconds`, for each loop the time of a step in each repeat; `check`, for each loop the means of
      the first steps; `shuffled`, the loops that take the examples in an order of their own.
    """
    with tempfile.TemporaryDirectory() as folder:
        loops = competitors(runtime, steps_per_loop=steps_per_loop, per_execution=per_execution, folder=folder)
        lanes = {name: Lane(loop.work) for name, loop in loops.items()}
        for lane in lanes.values():
            lane.slice(check_steps)
        steps = {}
        for name, lane in lanes.items():
            together = loops[name].together
            seconds = min(lane.slice(together) for _ in range(2))
            steps[name] = together * max(1, round(slice_seconds / seconds))
        times: Dict[str, list] = {name: [] for name in lanes}
        for repeat in range(repeats):
            # Back and forth, so that nobody always comes after the same one, whose data may still be read ahead.
            for name in list(lanes)[:: -1 if repeat % 2 else 1]:
                time.sleep(rest_seconds)
                times[name].append(lanes[name].slice(steps[name]) / steps[name] * 1e6)
        for lane in lanes.values():
            lane.end()
    return {
        "replicas": runtime.replicas,
        "epoch_steps": EPOCH,
        "microseconds": times,
        "steps": steps,
        "check": {name: loop.reports[0] for name, loop in loops.items()},
        "shuffled": [name for name, loop in loops.items() if loop.shuffles],
    }


def disagreement(check: Mapping[str, Mapping[str, float]], shuffled: Collection[str] = ()) -> Optional[str]:
    """What shows that the loops did not do the same work, or None.

    Loops that shuffle see other examples in each batch, so that their values agree less closely.
    """
    names = list(check)
    for name in names[1:]:
        tolerance = _TOLERANCE_SHUFFLED if name in shuffled else _TOLERANCE
        for value in ("loss", "accuracy"):
            ours, theirs = check[names[0]][value], check[name][value]
            if not abs(ours - theirs) <= tolerance:
                return f"the {value} of {names[0]} is {ours:.6f}, that of {name} {theirs:.6f}: not the same work"
    return None
