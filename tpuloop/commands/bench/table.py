"""The report of `tpuloop bench loop`. Pure."""

from typing import Any, Dict, List, Optional, Tuple

from tpuloop.commands.bench.rows import fits, machine_lines, row, spread_text
from tpuloop.commands.bench.spread import Spread, paired_ratios


def report(results: Dict[str, Any]) -> str:
    """The whole report of `tpuloop bench loop` from its plain data."""
    lines = [
        machine_lines(results["machine"])[0],
        "MLP 32-64-64-10, batch 64, Adam; every loop records each step's loss and updates an accuracy.",
        "The loops named last shuffle examples in memory, epoch by epoch; the others take ready batches in one order.",
        "Times and ratios are medians [quartiles]; a ratio compares slices that ran next to each other.",
        *machine_lines(results["machine"])[1:],
    ]
    for race in results["races"]:
        lines += ["", *_race_lines(race)]
    if results["startup"]:
        lines += ["", "Start-up, in a new process"]
        for name, (seconds, target) in results["startup"].items():
            spread = Spread.of(seconds)
            lines.append(row(name, _seconds(spread), f"<= {target:g} s", spread.median <= target))
    return "\n".join(lines)


def _race_lines(race: Dict[str, Any]) -> List[str]:
    times, replicas = race["microseconds"], race["replicas"]
    heading = "1 replica" if replicas == 1 else f"{replicas} replicas"
    lines = [f"{heading}, {len(next(iter(times.values())))} repeats, epochs of {race['epoch_steps']} steps"]
    for name, values in times.items():
        lines.append(row(name, f"{spread_text(Spread.of(values), '.0f')} us a step"))
    for text, ratio, (sign, bound) in _ratios(race):
        target = "" if bound is None else f"{sign} {bound:g}"
        lines.append(row(text, spread_text(ratio, ".3f"), target, fits(ratio.median, sign, bound)))
    return lines


def _ratios(race: Dict[str, Any]) -> List[Tuple[str, Spread, Tuple[str, Optional[float]]]]:
    """What the ratios are of, the ratios, and their targets."""
    times, replicas = race["microseconds"], race["replicas"]
    ours, hand, with_callbacks, per_execution, plain, shuffled, keras_arrays, keras_dataset = times
    faster = {1: 1.9, 8: 3.0}.get(replicas)

    def ratio(name: str, base: str, target: Tuple[str, Optional[float]]) -> Tuple[str, Spread, Any]:
        return f"{name} / {base}", paired_ratios(times[name], times[base]), target

    return [
        ratio(ours, hand, ("<=", 1.03)),
        ratio(with_callbacks, ours, ("<=", 1.05)),
        ratio(per_execution, ours, (">=", faster)),
        ratio(plain, ours, (">=", None)),
        ratio(keras_arrays, shuffled, (">=", faster)),
        ratio(keras_dataset, shuffled, (">=", faster)),
    ]


def _seconds(spread: Spread) -> str:
    return f"{spread_text(spread, '.2f')} s"
