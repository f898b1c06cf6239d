"""Times the loops against each other in this process."""

import tempfile
import time
from typing import Any, Collection, Dict, Mapping, Optional

from tpuloop.commands.bench.competitors import EPOCH, competitors
from tpuloop.commands.bench.turns import Lane, steps_of_a_slice, take_turns
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
        steps = {
            name: steps_of_a_slice(lane, seconds=slice_seconds, together=loops[name].together)
            for name, lane in lanes.items()
        }
        seconds = take_turns(lanes, steps=steps, repeats=repeats, rest=lambda: time.sleep(rest_seconds))
        for lane in lanes.values():
            lane.end()
    return {
        "replicas": runtime.replicas,
        "epoch_steps": EPOCH,
        "microseconds": {name: [value * 1e6 for value in values] for name, values in seconds.items()},
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
