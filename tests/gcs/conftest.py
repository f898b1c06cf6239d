"""A store on loopback, and processes that reach it as `gs://`."""

import json
import os
import subprocess
import sys
import textwrap
from typing import NamedTuple

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="session")
def emulator_class():
    sys.path.insert(0, HERE)
    try:
        from emulator import Emulator
    finally:
        sys.path.remove(HERE)
    return Emulator


@pytest.fixture
def store(emulator_class):
    """An empty store with the bucket `bucket`."""
    with emulator_class("bucket") as emulator:
        yield emulator


class Result(NamedTuple):
    """How a process ended: its exit status, negative for a signal, and all it printed."""

    status: int
    out: str
    err: str


class Started:
    """A process that runs.

    Attributes:
      pid: its number.
    """

    def __init__(self, server, files):
        self._server, self._files = server, files
        self.pid = int(server.stdout.readline())

    def wait(self):
        """How it ended."""
        status = int(self._server.stdout.readline())
        return Result(status, *((self._files / name).read_text("utf-8") for name in ("out", "err")))


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """`start(store, *arguments)`: a command that has just begun; `start(store, code=...)`: lines of Python."""
    files = tmp_path_factory.mktemp("streams")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "GCS_", "CLOUD_"))}
    server = subprocess.Popen(
        [sys.executable, os.path.join(HERE, "forks.py")],
        env={**inherited, "TF_USE_MODULAR_FILESYSTEM": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "TMPDIR": str(files)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert server.stdout.readline() == "ready\n"

    def begin(store, *arguments, code=None, timeout=90):
        job = {
            "argv": [str(argument) for argument in arguments],
            "code": None if code is None else textwrap.dedent(code),
            "env": store.environment,
            "out": str(files / "out"),
            "err": str(files / "err"),
            "timeout": timeout,
        }
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        return Started(server, files)

    yield begin
    server.stdin.close()
    assert server.wait(timeout=10) == 0


@pytest.fixture
def run(store, start):
    """`run(*arguments)`: how a command ended."""
    return lambda *arguments, **more: start(store, *arguments, **more).wait()


@pytest.fixture
def python(store, start):
    """`python(code)`: what lines of Python printed, as a list of lines; they must end well."""

    def lines(code):
        result = start(store, code=code).wait()
        assert result.status == 0, result.err
        return result.out.splitlines()

    return lines


@pytest.fixture
def curve(store, tmp_path):
    """`curve(part)`: all steps of the loss of gs://bucket/run, as TensorBoard reads them."""

    def steps(part="train", tag="loss"):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        folder = tmp_path / f"curve-{part}"
        folder.mkdir()
        for name in store.names("bucket", f"run/events/{part}/"):
            (folder / os.path.basename(name)).write_bytes(store.content("bucket", name))
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        events.Reload()
        return [point.step for point in events.Scalars(tag)]

    return steps


def pytest_collection_modifyitems(items):
    # What it takes to start a store and processes that reach it is the same on every version of Python.
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.slow)
