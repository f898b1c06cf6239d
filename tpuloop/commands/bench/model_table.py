"""The report of `tpuloop bench models`. Pure."""

from typing import Any, Dict, List

from tpuloop.commands.bench.rows import fits, machine_lines, row, spread_text
from tpuloop.commands.bench.spread import Spread, paired_ratios


def report(results: Dict[str, Any]) -> str:
    """The whole report from its plain data."""
    peak = results["matmul_flops_per_second"]
    lines = [
        *machine_lines(results["machine"]),
        "Training steps in float32: loss, gradients, an update by momentum. Medians [quartiles]; ratios are of steps",
        f"next to each other. The fastest product of two matrices here: {peak / 1e9:.0f} GFLOP/s.",
    ]
    for race in results["races"]:
        lines += ["", race["title"], *_race_lines(race, peak=peak)]
    return "\n".join(lines)


def _race_lines(race: Dict[str, Any], *, peak: float) -> List[str]:
    lines = []
    for name, seconds in race["seconds"].items():
        lines.append(row(name, f"{spread_text(Spread.of(1e3 * value for value in seconds), '.1f')} ms a step"))
        if name in race["flops"]:
            share = Spread.of(race["flops"][name] / value / peak for value in seconds)
            lines.append(
                row(f"  {race['flops'][name] / 1e9:.1f} GFLOP, share of that speed", spread_text(share, ".2f"))
            )
    ours, keras = list(race["seconds"])[:2]
    ratio = paired_ratios(race["seconds"][ours], race["seconds"][keras])
    lines.append(row(f"{ours} / {keras}", spread_text(ratio, ".3f"), "<= 1", fits(ratio.median, "<=", 1)))
    return lines
