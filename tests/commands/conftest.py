"""Commands as processes: new ones, which load TensorFlow themselves, and quick ones, which share an import."""

import glob
import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


class Result(NamedTuple):
    """How a process ended: its exit status, negative for a signal, and all it printed."""

    status: int
    out: str
    err: str


def clean_environment(**more):
    """The environment of a shell, without what this test run sets for itself."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("TF_")}, **more}


@pytest.fixture(scope="session")
def tpuloop():
    """`tpuloop(*arguments, cwd=..., env=...)`: a command in a new process."""

    def run(*arguments, cwd=None, env=None, program=("-m", "tpuloop"), timeout=120, **more):
        done = subprocess.run(
            [sys.executable, *program, *map(str, arguments)],
            cwd=cwd,
            env=clean_environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            **more,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def quick_tpuloop(tmp_path_factory):
    """`quick_tpuloop(*arguments, cwd=...)`: a command in a process forked from one that has imported TensorFlow."""
    files = tmp_path_factory.mktemp("streams")
    # The level is what the command itself sets before TensorFlow loads. AutoGraph's files, which a fork cannot delete
    # at its end, stay in a folder of ours.
    environment = clean_environment(TF_CPP_MIN_LOG_LEVEL="1", TMPDIR=str(files))
    server = subprocess.Popen(
        [sys.executable, os.path.join(HERE, "forks.py")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert server.stdout.readline() == "ready\n"

    def run(*arguments, cwd=None, env=None, timeout=60):
        job = {
            "argv": [str(argument) for argument in arguments],
            "cwd": str(cwd or files),
            "env": env or {},
            "out": str(files / "out"),
            "err": str(files / "err"),
            "timeout": timeout,
        }
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return Result(status, *((files / name).read_text("utf-8") for name in ("out", "err")))

    yield run
    server.stdin.close()
    assert server.wait(timeout=10) == 0


@pytest.fixture(scope="session")
def small_run(quick_tpuloop, tmp_path_factory):
    """The workdir of a finished run of 3 steps, not compiled, which takes a moment less. Do not write into it."""
    workdir = tmp_path_factory.mktemp("small") / "run"
    result = quick_tpuloop("train", "--steps=3", "--eager", f"--workdir={workdir}")
    assert result.status == 0, result.err
    return workdir


@pytest.fixture(scope="session")
def digits_run(tpuloop, tmp_path_factory):
    """The main job, as a shell would run it: its workdir, whose name is no easy one, and how it ended."""
    workdir = tmp_path_factory.mktemp("a run") / "mlp dígits"
    return workdir, tpuloop("train", "--config=mlp_digits", f"--workdir={workdir}")


@pytest.fixture(scope="session")
def curve():
    """`curve(workdir)`: all points of a curve, as TensorBoard reads them."""

    def read(workdir, name="loss", part="train"):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(os.path.join(str(workdir), "events", part), size_guidance={"scalars": 0})
        events.Reload()
        return [(point.step, point.value) for point in events.Scalars(name)]

    return read


@pytest.fixture(scope="session")
def weights():
    """`weights(workdir)`: every variable of the newest checkpoint, read with bare TensorFlow."""

    def read(workdir):
        import tensorflow as tf

        folder = sorted(glob.glob(os.path.join(glob.escape(str(workdir)), "checkpoints", "step-*")))[-1]
        reader = tf.train.load_checkpoint(os.path.join(folder, "state"))
        names = [name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
        return {name: reader.get_tensor(name) for name in names}

    return read
