"""`tpuloop bench input`: all pipelines read the same examples, and the numbers are what they say."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.commands.bench import entering, input_files, input_table, stream_rates, turns
from tpuloop.commands.bench.reader_names import CSV, HAND_TUNED, OURS, PACKED
from tpuloop.commands.bench.readers import TUNINGS, hand_tuned, readers
from tpuloop.commands.bench.reading import Mismatch, _check
from tpuloop.data.arrays import ArraySource
from tpuloop.data.records import example
from tpuloop.data.records.framing import read_frames

MACHINE = {"cpu": "A CPU", "cores": 2, "load": 0.1, "tensorflow": "2.9.3", "python": "3.8.1"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return input_files.write_tokens(str(tmp_path_factory.mktemp("tokens")), count=200, files=2)


def test_the_same_examples_in_three_forms(files):
    assert files.ids.shape == (200, 128)
    # Whole records of 64 in all files but the last: 128 and 72 examples.
    assert [(file.records, file.examples) for file in files.packed] == [(2, 128), (2, 72)]
    assert [(file.records, file.examples) for file in files.examples] == [(128, 128), (72, 72)]
    with open(files.examples[1].path, "rb") as file:
        first = example.decode(next(read_frames(file))[1])
    assert first["label"] == [128] and np.array_equal(first["ids"], files.ids[128])
    with open(files.csv) as file:
        rows = [line.split(",") for line in file]
    assert len(rows) == 200 and rows[7][128] == "7\n" and rows[7][0] == str(files.ids[7, 0])


@pytest.mark.parametrize("name", [PACKED, CSV, OURS, HAND_TUNED])
def test_every_pipeline_reads_every_example_as_it_is(files, name):
    pipelines = {**readers(files, batch=50), HAND_TUNED: hand_tuned(files, TUNINGS[-1], batch=50, shuffled=20)}
    batches = list(pipelines[name].take(9))  # Without end: an epoch are four.
    assert [batch["ids"].shape for batch in batches] == [[50, 128]] * 9
    labels = np.concatenate([batch["label"] for batch in batches])
    if name == HAND_TUNED:  # Batches may overtake each other, those of the next epoch too.
        assert set(labels) == set(range(200))
    else:
        assert sorted(labels[:200]) == list(range(200))
    assert np.array_equal(np.concatenate([batch["ids"] for batch in batches]), files.ids[labels])


def test_other_examples_are_found_out(files):
    wrong = readers(files, batch=50)[CSV].map(lambda batch: {**batch, "ids": batch["ids"] + 1})
    with pytest.raises(Mismatch, match="a wrong one gave other examples than those in the files: not the same work"):
        _check(wrong, files.ids, what="a wrong one")


def test_examples_come_again_under_their_own_label(tmp_path):
    ids = np.arange(3 * 128, dtype=np.int32).reshape([3, 128])
    written = input_files.write_packed(str(tmp_path), ids, count=100, files=1)
    assert [(file.records, file.examples) for file in written] == [(2, 100)]


def test_entering_starts_at_nine_tenths(files, monkeypatch):
    seen = []

    class Source(ArraySource):
        def __init__(self, files, **more):
            super().__init__(np.arange(sum(file.examples for file in files)))

        def batches(self, *, position=0, **more):
            seen.append(position)
            return super().batches(position=position, **more)

    monkeypatch.setattr(entering, "PackedSource", Source)
    result = entering.enter_packed(files.packed, batch=16, repeats=1)
    assert result["examples"] == 200
    assert seen == [0, 176] * 2  # The last whole batch before 180; once to warm up.
    assert len(result["start"]) == len(result["inside"]) == 1


@pytest.mark.slow
def test_only_pictures_that_are_used_are_decoded(tmp_path):
    pictures = input_files.write_pictures(str(tmp_path), count=20_000, files=2)
    result = entering.enter_pictures(pictures, batch=16, repeats=1)
    (start,), (inside,) = result["decoded"]["start"], result["decoded"]["inside"]
    assert start >= 16 and inside >= 16  # The first batch at least is decoded.
    assert inside < 2_000  # Of the 18,000 on the way, none.


def test_streams_are_read_in_turns_and_rates_are_batches_a_second(monkeypatch):
    monkeypatch.setattr(stream_rates, "rest", lambda: None)
    streams = {name: (lambda: iter(tf.data.Dataset.range(10**9))) for name in ("a", "b")}
    rates = stream_rates.batches_per_second(streams, repeats=3, slice_seconds=0.0)
    assert list(rates) == ["a", "b"]
    assert all(len(values) == 3 and min(values) > 0 for values in rates.values())


class SlowLane:
    """Takes half a second a step, but nothing for the first few."""

    def __init__(self, ready):
        self.ready = ready
        self.log = []

    def slice(self, steps):
        self.log.append(steps)
        waited = max(0, steps - self.ready)
        self.ready = max(0, self.ready - steps)
        return 0.5 * waited


def test_what_was_read_ahead_does_not_count():
    lane = SlowLane(ready=25)
    times = turns.take_turns({"a": lane}, steps={"a": 20}, repeats=1, rest=lambda: None, untimed_seconds=0.9)
    # Two at a time: 24 are there already, 1 of the next two, and all of two more take a second.
    assert lane.log == [2] * 14 + [20]
    assert times == {"a": [0.5]}


def test_speed_of_a_lane_over_some_time():
    assert turns.run_for(SlowLane(ready=0), seconds=2.0, together=3) == 2.0
    assert turns.run_for(SlowLane(ready=0), seconds=0.0, together=3) == 0.0


def reading(packed, csv, ours, hand):
    rates = {PACKED: packed, CSV: csv, OURS: ours, HAND_TUNED: hand}
    return {"examples_per_second": rates, "tuning": "cycle_length=4", "tried": {"a": 1.0, "b": 2.0}}


def rows_of(results):
    return [" ".join(line.split()) for line in input_table.report({"machine": MACHINE, **results}).splitlines()]


def test_table_of_reading_puts_targets_beside_ratios():
    rows = rows_of({"reading": reading([600.0, 1200.0], [20.0, 30.0], [96.0, 176.0], [100.0, 200.0])})
    assert "tpuloop, packed 900 [750, 1,050] examples/s" in rows
    # Ratios are of one repeat: 30 and 40, 6 and 6, 0.96 and 0.88.
    assert f"{PACKED} / {CSV} 35.00 [32.50, 37.50] >= 30 ok" in rows
    assert f"{PACKED} / {HAND_TUNED} 6.00 [6.00, 6.00] >= 6 ok" in rows
    assert f"{OURS} / {HAND_TUNED} 0.92 [0.90, 0.94] >= 0.95 MISSED" in rows
    assert rows[-1] == "Hand-tuned: cycle_length=4, the fastest of 2."


def test_table_of_entering_bounds_what_is_over_one_and_a_half():
    rows = rows_of({"entering": {"examples": 1000000, "start": [1.0, 1.0], "inside": [1.5, 1.7]}})
    assert "Entering an epoch of 1,000,000 packed examples, to the first batch" in rows
    assert rows[-1] == "at 90 %, less 1.5 times that at the start 0.100 [0.050, 0.150] s <= 0.2 s ok"
    rows = rows_of({"entering": {"examples": 10, "start": [1.0], "inside": [1.8]}})
    assert rows[-1].endswith("MISSED")


def test_table_of_pictures_allows_no_more_than_at_the_start():
    decoded = {"start": [300, 400], "inside": [900, 912]}
    entered = {"examples": 10, "batch": 256, "start": [1.0], "inside": [1.0], "decoded": decoded}
    assert rows_of({"pictures": entered})[-1] == "decoded at 90 % 912 pictures <= 912 ok"
    decoded["inside"].append(913)
    assert rows_of({"pictures": entered})[-1] == "decoded at 90 % 913 pictures <= 912 MISSED"


def test_table_of_converting_compares_rates():
    race = {"examples": 100, "bytes": 2e6, "workers": 2, "seconds": {"tpuloop": [5.0], "hand-written": [4.0]}}
    rows = rows_of({"converting": race})
    assert "tpuloop 20 [20, 20] examples/s" in rows
    assert rows[-1] == "tpuloop / hand-written 0.80 [0.80, 0.80] >= 0.8 ok"


@pytest.mark.slow
def test_command_does_all_parts(tpuloop, tmp_path):
    sizes = ["--examples=2000", "--packed_examples=2000", "--pictures=1000", "--batch=16", "--csv_rows=500"]
    arguments = [*sizes, "--repeats=1", "--conversions=1", "--slice_seconds=0", f"--folder={tmp_path}"]
    result = tpuloop("bench", "input", *arguments)
    assert result.status == 0, result.err
    for part in ("Reading", "Entering an epoch of 2,000 packed", "Entering an epoch of 1,000 JPEGs", "Converting"):
        assert part in result.out
    assert "WARNING" not in result.err
    assert list(tmp_path.iterdir()) == []  # What was made is gone.


def test_command_prints_json(tpuloop):
    result = tpuloop("bench", "input", "--parts=converting", "--csv_rows=64", "--conversions=1", "--json")
    assert result.status == 0, result.err
    results = json.loads(result.out)
    assert set(results) == {"machine", "converting"} and results["converting"]["examples"] == 64


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--parts=raeding"], "--parts=raeding: name some of reading, entering, pictures, converting"),
        (["--batch=300", "--pictures=200"], "--batch=300 is more than the 200 examples to read"),
        (["--parts=entering", "--folder=/nowhere"], "--folder=/nowhere cannot be used"),
        (["--repeats=0"], "repeats"),
    ],
)
def test_wrong_use_is_told_in_one_line(quick_tpuloop, arguments, said):
    result = quick_tpuloop("bench", "input", *arguments)
    assert result.status == 2
    assert said in result.err and len(result.err.splitlines()) == 1
