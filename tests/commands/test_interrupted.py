"""Runs that are stopped, killed or hindered, and continued by the same command."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "research_script.py")
TRAIN = ("-m", "tpuloop", "train")

pytestmark = pytest.mark.slow


class Started:
    """A process that trains, and may be sent a signal at some step."""

    def __init__(self, *arguments, workdir, program=TRAIN):
        self.workdir = workdir
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments, f"--workdir={workdir}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def wait_for(self, pattern, seconds=120):
        """Until there are files of that pattern in the workdir."""
        deadline = time.monotonic() + seconds
        while not glob.glob(f"{glob.escape(str(self.workdir))}/{pattern}"):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def send(self, number):
        """Sends a signal; what the process had printed on standard error when it ended, and its exit status."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=120)
        return self.process.returncode, err


def saved_steps(workdir):
    return sorted(int(name[len("step-") :]) for name in os.listdir(os.path.join(str(workdir), "checkpoints")))


RECIPE = ("--steps=2000", "--eval_every=1000", "--seed=3", "--config.model.dropout=0.1")


@pytest.fixture(scope="module")
def unbroken(quick_tpuloop, tmp_path_factory):
    """The workdir of a run that nothing came between."""
    workdir = tmp_path_factory.mktemp("unbroken")
    result = quick_tpuloop("train", *RECIPE, f"--workdir={workdir}", timeout=120)
    assert result.status == 0, result.err
    return workdir


def check_same_curves(workdir, unbroken, curve):
    """The curves have each step once, and the same values to the bit."""
    assert curve(workdir) == curve(unbroken)
    assert [step for step, _ in curve(workdir)] == list(range(1, 2001))
    assert curve(workdir, part="eval") == curve(unbroken, part="eval")


def check_same_weights(workdir, unbroken, weights):
    """All variables of the last checkpoint, the optimizer's too, are the same to the bit."""
    ours, expected = weights(workdir), weights(unbroken)
    assert ours.keys() == expected.keys() and len(ours) > 10
    for name in ours:
        np.testing.assert_array_equal(ours[name], expected[name], err_msg=name)


def test_two_signals_later_the_run_is_the_unbroken_one(tmp_path, unbroken, curve, weights, quick_tpuloop):
    workdir = tmp_path / "run"
    for number in (signal.SIGTERM, signal.SIGINT):
        began = saved_steps(workdir)[-1] if workdir.exists() else 0
        run = Started(*RECIPE, workdir=workdir)
        run.wait_for(f"events/train/*{run.process.pid}*")
        status, err = run.send(number)
        assert status == 75, err
        step = saved_steps(workdir)[-1]
        assert began < step < 2000
        stopped = f"stopped by {signal.Signals(number).name} after step {step}"
        assert err.splitlines()[-1] == f"{stopped}, its state is saved: the same command continues"
    result = quick_tpuloop("train", *RECIPE, f"--workdir={workdir}", timeout=120)
    assert result.status == 0, result.err
    assert f"workdir: {workdir}, continues after step {step}" in result.err
    check_same_curves(workdir, unbroken, curve)
    check_same_weights(workdir, unbroken, weights)


@pytest.fixture(scope="module")
def killed(tmp_path_factory, quick_tpuloop):
    """The workdir of a run that was killed after a few checkpoints, and then continued."""
    workdir = tmp_path_factory.mktemp("killed")
    # How often it saves does not belong to what it computes.
    run = Started(*RECIPE, "--save_every=100", workdir=workdir)
    run.wait_for("checkpoints/step-00000[2-9]00")
    status, err = run.send(signal.SIGKILL)
    assert status == -signal.SIGKILL, err
    step = saved_steps(workdir)[-1]
    result = quick_tpuloop("train", *RECIPE, f"--workdir={workdir}", timeout=120)
    assert result.status == 0, result.err
    assert f"continues after step {step}" in result.err
    return workdir


def test_a_killed_run_goes_on_from_its_last_checkpoint(killed, unbroken, weights):
    assert not glob.glob(f"{killed}/checkpoints/.writing*")
    check_same_weights(killed, unbroken, weights)


def test_a_killed_run_has_all_of_its_curves(killed, unbroken, curve):
    check_same_curves(killed, unbroken, curve)


def test_a_research_script_has_flags_folder_resume_and_statuses(tmp_path, tpuloop, quick_tpuloop, curve):
    helped = tpuloop("--help", program=(SCRIPT,))
    assert helped.status == 0
    assert "Label smoothing on the digits" in helped.out
    for flag in ("--smoothing", "--workdir", "--learning_rate", "--replicas", "--config.FIELD"):
        assert f"\n  {flag}\n" in helped.out
    wrong = tpuloop("--smoothing=2", f"--workdir={tmp_path / 'w'}", program=(SCRIPT,))
    assert wrong.status == 2
    # Lines before are what TensorFlow says when the script imports it.
    assert "Traceback" not in wrong.err
    line = wrong.err.splitlines()[-1]
    assert line.startswith(f"{SCRIPT}: error: ") and "smoothing" in line

    flags = ("--steps=2000", "--config.seed=1", "--smoothing=0.2")
    run = Started(*flags, workdir=tmp_path / "run", program=(SCRIPT,))
    run.wait_for("events/train/*")
    status, err = run.send(signal.SIGTERM)
    assert status == 75, err
    again = tpuloop(*flags, f"--workdir={tmp_path / 'run'}", program=(SCRIPT,))
    assert again.status == 0, again.err
    assert "data: the program's own, global batch 32 (32 a replica)" in again.err
    assert again.out.startswith("held-out accuracy ") and again.out.endswith(" at step 2000\n")
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(1, 2001))

    # What the script alone knows, the commands cannot rebuild.
    for command in ("evaluate", "train"):
        refused = quick_tpuloop(command, f"--workdir={tmp_path / 'run'}")
        assert refused.status == 2 and "research_script.py" in refused.err.splitlines()[-1]


def test_nobody_reads_and_nothing_is_lost(tmp_path, tpuloop):
    # Without a HOME, in a folder that takes no files, with two streams closed and the reader of the third gone.
    command = [sys.executable, *TRAIN, "--steps=30", "--eager", f"--workdir={tmp_path}"]
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&- >&-', "sh", *command], cwd="/proc", env={}, stderr=subprocess.PIPE
    )
    assert process.stderr.readline().startswith(b"tpuloop ")
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert saved_steps(tmp_path) == [30]


@pytest.fixture
def small_disk(tmp_path):
    """`small_disk(kilobytes)`: a folder with that much space, or a test that is skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def size(kilobytes):
        options = f"{'remount,' if os.path.ismount(folder) else ''}size={kilobytes}k"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if mounted.returncode:
            pytest.skip("needs the right to mount a file system")
        return folder

    try:
        yield size
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_full_disk_ends_the_run_in_one_line_and_more_space_lets_it_go_on(small_disk, quick_tpuloop):
    workdir = small_disk(300) / "run"
    flags = ("train", "--steps=60", "--save_every=10", "--eager", f"--workdir={workdir}")
    result = quick_tpuloop(*flags)
    assert result.status == 1
    last = result.err.splitlines()[-1]
    assert last.startswith("tpuloop train: error: cannot save step ") and "No space left on device" in last
    assert "Traceback" not in result.err
    saved = saved_steps(workdir)
    assert saved and saved[-1] < 60
    small_disk(3000)
    result = quick_tpuloop(*flags)
    assert result.status == 0, result.err
    assert f"continues after step {saved[-1]}" in result.err


def test_what_was_run_is_written_down(quick_tpuloop, tmp_path):
    flags = ("train", "--steps=4", "--replicas=2", "--accelerator=cpu", "--eager", f"--workdir={tmp_path}")
    assert quick_tpuloop(*flags).status == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["flags"] == {"accelerator": "cpu", "replicas": 2}
    assert config["program"] == "tpuloop" and config["recipe"]["steps"] == 4
    assert sorted(config["versions"]) == ["python", "tensorflow", "tpuloop"]
