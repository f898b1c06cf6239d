"""`tpuloop bench loop`: the loops do the same work, and the numbers are what they say."""

import contextlib
import functools
import json
import subprocess
import sys
import threading

import pytest
from absl import flags

from tpuloop.commands import common_flags, program
from tpuloop.commands.bench import loop, table
from tpuloop.commands.bench import race as race_module
from tpuloop.commands.bench.competitors import EPOCH
from tpuloop.commands.bench.race import disagreement, race
from tpuloop.commands.bench.spread import Spread, paired_ratios
from tpuloop.commands.bench.startup import STARTS
from tpuloop.commands.bench.turns import Lane

TINY = {"repeats": 2, "slice_seconds": 0.0, "steps_per_loop": 5, "per_execution": 5, "check_steps": 5}
SAME_ORDER = ["tpuloop", "hand-written", "tpuloop with callbacks", "model.fit, 5 steps a call", "model.fit"]
SHUFFLED = ["tpuloop, shuffling", "model.fit(x, y), 5 steps a call", "model.fit(dataset), 5 steps a call"]
NAMES = SAME_ORDER + SHUFFLED


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)])
def result(request, runtimes):
    return race(runtimes(request.param), **TINY)


@pytest.mark.slow
def test_all_loops_do_the_same_work(result):
    check = result["check"]
    assert list(check) == NAMES
    for name in SAME_ORDER:
        assert check[name]["loss"] == pytest.approx(check["tpuloop"]["loss"], abs=1e-5), name
        assert check[name]["accuracy"] == pytest.approx(check["tpuloop"]["accuracy"], abs=1e-6), name
    assert disagreement({name: check[name] for name in SAME_ORDER}) is None
    assert result["shuffled"] == SHUFFLED


@pytest.mark.slow
def test_an_epoch_of_shuffled_examples_gives_nearly_the_same_loss(runtimes):
    result = race(runtimes(1), **{**TINY, "check_steps": EPOCH})
    losses = [result["check"][name]["loss"] for name in NAMES]
    assert len(set(losses[len(SAME_ORDER) :])) == len(SHUFFLED)  # Each shuffles in its own way.
    assert max(losses) - min(losses) < 0.05
    assert disagreement(result["check"], result["shuffled"]) is None


def test_every_loop_is_timed_in_every_repeat(result):
    assert list(result["microseconds"]) == NAMES
    assert all(len(times) == 2 and min(times) > 0 for times in result["microseconds"].values())
    assert result["steps"] == dict(zip(NAMES, [5, 5, 5, 5, 1, 5, 5, 5]))


def test_result_survives_json_and_makes_a_table(result):
    machine = {"cpu": "CPU", "cores": 2, "load": 0.1, "tensorflow": "2.9.3", "python": "3.8.1"}
    text = table.report(json.loads(json.dumps({"machine": machine, "races": [result], "startup": {}})))
    for name in NAMES:
        assert name in text


def test_work_that_differs_is_named():
    same = {"loss": 0.5, "accuracy": 0.25}
    assert disagreement({"a": same, "b": {"loss": 0.50005, "accuracy": 0.25}}) is None
    assert disagreement({"a": same, "b": {"loss": 0.5002, "accuracy": 0.25}}) == (
        "the loss of a is 0.500000, that of b 0.500200: not the same work"
    )
    assert "accuracy" in disagreement({"a": same, "b": {"loss": 0.5, "accuracy": 0.3}})
    assert disagreement({"a": same, "b": {"loss": float("nan"), "accuracy": 0.25}}) is not None
    assert disagreement({"a": same, "b": {"loss": 0.59, "accuracy": 0.25}}, ["b"]) is None
    assert disagreement({"a": same, "b": {"loss": 0.61, "accuracy": 0.25}}, ["b"]) is not None


def test_spread_is_median_and_quartiles():
    assert Spread.of([5, 1, 4, 2, 3]) == Spread(2, 3, 4)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)


def test_ratios_are_paired():
    assert paired_ratios([2, 40, 6], [1, 10, 2]) == Spread(2.5, 3, 3.5)  # Of 2, 4 and 3.


def test_table_puts_targets_beside_numbers():
    times = {name: [time] * 3 for name, time in zip(NAMES, [100.0, 100.0, 106.0, 200.0, 500.0, 110.0, 220.0, 330.0])}
    machine = {"cpu": "A CPU", "cores": 2, "load": 0.1, "tensorflow": "2.9.3", "python": "3.8.1"}
    text = table.report(
        {
            "machine": machine,
            "races": [{"replicas": count, "epoch_steps": 100, "microseconds": times} for count in (1, 8)],
            "startup": {"import tpuloop": ([0.1, 0.2, 0.9], 0.3)},
        }
    )
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[0] == "A CPU, 2 cores, TensorFlow 2.9.3, Python 3.8.1, load 0.1 at the start"
    assert "hand-written 100 [100, 100] us a step" in rows
    assert rows.count("tpuloop / hand-written 1.000 [1.000, 1.000] <= 1.03 ok") == 2
    assert "tpuloop with callbacks / tpuloop 1.060 [1.060, 1.060] <= 1.05 MISSED" in rows
    one, eight = [row for row in rows if row.startswith("model.fit, 5 steps a call / tpuloop")]
    assert one.endswith("2.000 [2.000, 2.000] >= 1.9 ok")
    assert eight.endswith("2.000 [2.000, 2.000] >= 3 MISSED")
    assert "model.fit / tpuloop 5.000 [5.000, 5.000]" in rows
    assert "model.fit(x, y), 5 steps a call / tpuloop, shuffling 2.000 [2.000, 2.000] >= 1.9 ok" in rows
    assert "model.fit(dataset), 5 steps a call / tpuloop, shuffling 3.000 [3.000, 3.000] >= 3 ok" in rows
    assert "import tpuloop 0.20 [0.15, 0.55] s <= 0.3 s ok" in rows


@pytest.mark.parametrize(("load", "said"), [(0.4, False), (0.6, True)])
def test_table_says_that_the_machine_was_busy(load, said):
    machine = {"cpu": "A CPU", "cores": 2, "load": load, "tensorflow": "2.9.3", "python": "3.8.1"}
    assert ("busy" in table.report({"machine": machine, "races": [], "startup": {}})) == said


def test_lanes_run_one_at_a_time():
    log = []

    def work(name):
        def run(steps, pause):
            while steps:
                log.append((name, steps))
                steps = pause()
            log.append((name, "end"))

        return run

    lanes = [Lane(work("a")), Lane(work("b"))]
    for steps in (3, 2):
        for lane in lanes:
            assert lane.slice(steps) >= 0
    for lane in lanes:
        lane.end()
    assert log == [("a", 3), ("b", 3), ("a", 2), ("b", 2), ("a", "end"), ("b", "end")]


def test_lane_raises_the_error_of_its_work():
    def work(steps, pause):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        Lane(work).slice(1)
    assert threading.active_count() < 20


def test_starts_are_of_commands_that_exist():
    for arguments, _ in STARTS.values():
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_command_prints_the_table():
    arguments = ["--replicas=1", "--repeats=1", "--slice_seconds=0", "--steps_per_loop=5"]
    arguments += ["--steps_per_execution=5", "--check_steps=5", "--nostartup"]
    command = [sys.executable, "-m", "tpuloop", "bench", "loop", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 replica, 1 repeats, epochs of 100 steps" in done.stdout
    assert "tpuloop / hand-written" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "tpuloop bench: error: name a topic: the topics are loop, input"),
        (["lop"], 2, "unknown topic 'lop'; did you mean 'loop'?: the topics are loop, input"),
        (["loop", "--repeats=0"], 2, "repeats"),
        (["loop", "--repeat=3"], 2, "did you mean"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments, status, said):
    done = subprocess.run([sys.executable, "-m", "tpuloop", "bench", *arguments], capture_output=True, text=True)
    assert done.returncode == status
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "error", "exit_status"),
    [
        (1, "the run on 1 replicas ended with status 1; see above", 1),
        (-9, "the run on 1 replicas ended with status -9; see above", 1),
        (2, "the run on 1 replicas ended with status 2; see above", 2),
    ],
)
def test_a_run_that_fails_is_told_in_one_line_and_is_no_wrong_flag(monkeypatch, capsys, status, error, exit_status):
    ended = subprocess.CompletedProcess([], status, stdout="")
    monkeypatch.setattr(loop.subprocess, "run", lambda *arguments, **more: ended)
    assert bench_with_flags(monkeypatch, "--nostartup") == exit_status
    assert capsys.readouterr().err == f"tpuloop bench loop: error: {error}\n"


def test_loops_that_did_not_do_the_same_work_are_told_in_one_line(monkeypatch, capsys):
    differing = {"check": {"a": {"loss": 0.5, "accuracy": 0.5}, "b": {"loss": 0.6, "accuracy": 0.5}}, "shuffled": []}
    monkeypatch.setattr(race_module, "race", lambda runtime, **more: differing)
    assert bench_with_flags(monkeypatch, "--nostartup", "--replicas=1") == 1
    error = "the loss of a is 0.500000, that of b 0.600000: not the same work"
    assert capsys.readouterr().err == f"tpuloop bench loop: error: {error}\n"


def bench_with_flags(monkeypatch, *arguments):
    """The exit status of the command in this process, with flags of its own and the streams as they are."""
    values = flags.FlagValues()
    for module in (loop, common_flags, program):
        monkeypatch.setattr(module, "FLAGS", values)
    for name in ("DEFINE_bool", "DEFINE_float", "DEFINE_integer", "DEFINE_string"):
        define = getattr(flags, name)
        monkeypatch.setattr(flags, name, functools.partial(define, flag_values=values))
    monkeypatch.setattr(program.streams, "keep_open", lambda: None)
    monkeypatch.setattr(program, "_log_to_stderr", lambda: None)
    monkeypatch.setattr(common_flags.quiet, "quiet_start", contextlib.nullcontext)
    monkeypatch.setattr(common_flags.quiet, "filter_python_warnings", lambda: None)
    return program.run_command(loop, "bench loop", arguments)


def test_help_lists_the_flags():
    done = subprocess.run([sys.executable, "-m", "tpuloop", "bench", "loop", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert loop.SUMMARY in done.stdout
    assert "--repeats" in done.stdout
