"""The race of `convert_race.py` at a small size: both write the same values, and both are timed."""

import pytest

from tpuloop.commands.bench.convert_race import convert_race


@pytest.mark.slow
def test_both_write_the_same_values_and_are_timed():
    result = convert_race(examples=600, workers=2, repeats=2)
    assert result["examples"] == 600 and result["bytes"] > 300_000
    assert {name: len(seconds) for name, seconds in result["seconds"].items()} == {"tpuloop": 2, "hand-written": 2}
    assert min(map(min, result["seconds"].values())) > 0
