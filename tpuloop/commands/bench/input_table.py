"""The report of `tpuloop bench input`. Pure."""

from typing import Any, Dict, List, Optional

from tpuloop.commands.bench.reader_names import CSV, HAND_TUNED, OURS, PACKED
from tpuloop.commands.bench.rows import fits, machine_lines, row, spread_text
from tpuloop.commands.bench.spread import Spread, paired_ratios

# What a pipeline reads, times what another one does, at least.
_TARGETS = ((PACKED, CSV, 30.0), (PACKED, HAND_TUNED, 6.0), (OURS, HAND_TUNED, 0.95))
# Entering far inside may take so many times what it takes at the start, and so many seconds more.
_TIMES, _MORE = 1.5, 0.2
_AHEAD = 2  # How much the read-ahead of two starts may differ, in batches.
_CONVERTING = 0.8


def report(results: Dict[str, Any]) -> str:
    """The whole report from its plain data."""
    lines = machine_lines(results["machine"])
    lines.append("Medians [quartiles]; a ratio compares slices that ran next to each other.")
    for part, of_part in (
        ("reading", _reading),
        ("entering", _entering),
        ("pictures", _pictures),
        ("converting", _converting),
    ):
        if results.get(part):
            lines += ["", *of_part(results[part])]
    return "\n".join(lines)


def _reading(race: Dict[str, Any]) -> List[str]:
    rates = race["examples_per_second"]
    lines = ["Reading examples of 128 tokens"]
    for name, values in rates.items():
        lines.append(row(name, f"{spread_text(Spread.of(values), ',.0f')} examples/s"))
    for name, other, bound in _TARGETS:
        lines.append(_at_least(f"{name} / {other}", paired_ratios(rates[name], rates[other]), bound))
    lines.append(f"  Hand-tuned: {race['tuning']}, the fastest of {len(race['tried'])}.")
    return lines


def _entering(entered: Dict[str, Any]) -> List[str]:
    lines = [f"Entering an epoch of {entered['examples']:,} packed examples, to the first batch"]
    return lines + _seconds(entered, bounded=True)


def _pictures(entered: Dict[str, Any]) -> List[str]:
    batch, decoded = entered["batch"], entered["decoded"]
    lines = [f"Entering an epoch of {entered['examples']:,} JPEGs, to the first batch of {batch}"]
    lines += _seconds(entered, bounded=False)
    # What is decoded without being skipped: the first batch, and what is read ahead of the second.
    start, inside = (max(decoded[name]) for name in ("start", "inside"))
    most = start + _AHEAD * batch
    return [
        *lines,
        row("decoded at the start, with what is read ahead", f"{start:,} pictures"),
        row("decoded at 90 %", f"{inside:,} pictures", f"<= {most}", fits(inside, "<=", most)),
    ]


def _seconds(entered: Dict[str, Any], *, bounded: bool) -> List[str]:
    start, inside = entered["start"], entered["inside"]
    # The bound is on the difference, paired like a ratio.
    over = Spread.of(there - _TIMES * here for there, here in zip(inside, start))
    lines = [
        row("at the start", f"{spread_text(Spread.of(start), '.3f')} s"),
        row("at 90 %", f"{spread_text(Spread.of(inside), '.3f')} s"),
    ]
    if bounded:
        what = f"at 90 %, less {_TIMES:g} times that at the start"
        lines.append(row(what, f"{spread_text(over, '.3f')} s", f"<= {_MORE:g} s", fits(over.median, "<=", _MORE)))
    return lines


def _converting(race: Dict[str, Any]) -> List[str]:
    examples, seconds = race["examples"], race["seconds"]
    ours, theirs = seconds
    lines = [
        f"Converting a CSV file of {examples:,} examples, {race['bytes'] / 1e6:,.0f} MB, in {race['workers']} processes"
    ]
    for name, values in seconds.items():
        rates = Spread.of(examples / value for value in values)
        lines.append(row(name, f"{spread_text(rates, ',.0f')} examples/s"))
    # A rate by a rate is a time by a time, upside down.
    return [*lines, _at_least(f"{ours} / {theirs}", paired_ratios(seconds[theirs], seconds[ours]), _CONVERTING)]


def _at_least(what: str, ratio: Spread, bound: Optional[float]) -> str:
    return row(what, spread_text(ratio, ".2f"), f">= {bound:g}", fits(ratio.median, ">=", bound))
