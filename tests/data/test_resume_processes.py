"""Runs that are killed and resumed in new processes, with other replicas, see what an unbroken one sees, in order."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from tpuloop.data.records.framing import frame

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "resumed_run.py")
PACKED, RECORDS = [22, 9, 31], [17, 0, 1, 30, 14]  # As in the script.
KINDS = ["arrays", "packed", "records", "augmented", "mixture", "cached", "dataset", "callable"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Packed files and files of one example a record, whose examples are their own numbers."""
    path, first = tmp_path_factory.mktemp("data"), 0
    for number, count in enumerate(PACKED):
        ids = np.arange(first, first + count, dtype=np.int32)
        records = [ids[start : start + 4].tobytes() for start in range(0, count, 4)]
        (path / f"packed-{number}").write_bytes(b"".join(map(frame, records)))
        first += count
    first = 0
    for number, count in enumerate(RECORDS):
        records = [b"%d" % example for example in range(first, first + count)]
        (path / f"records-{number}").write_bytes(b"".join(map(frame, records)))
        first += count
    return path


def processes(jobs):
    """Runs each job in a process of its own; their exit statuses, and what they said."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, SCRIPT, json.dumps(jobs)], env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def seen(log):
    """The ids of each step by its number."""
    steps = {}
    for line in log.read_text().splitlines():
        step, *ids = map(int, line.split())
        # Steps behind the last checkpoint are done again, and see the same.
        assert steps.setdefault(step, ids) == ids, step
    return steps


def run(folder, tmp_path, kind, plan):
    """Runs a plan, (replicas, None or (step, signal)) of each process; the ids of each step, and the exit statuses."""
    workdir, log = tmp_path / f"{kind}-{len(plan)}", tmp_path / f"{kind}-{len(plan)}.log"
    of_all = {"kind": kind, "folder": str(folder), "workdir": str(workdir), "log": str(log)}
    statuses, said = processes([{**of_all, "replicas": replicas, "kill": kill} for replicas, kill in plan])
    return seen(log), statuses, said


def resumed(folder, tmp_path, kind, kills):
    """Compares a run that is killed at these (step, signal) with an unbroken one."""
    whole, statuses, said = run(folder, tmp_path, kind, [(1, None)])
    assert statuses == [0], said
    replicas = [1, 2, 4, 2, 1, 4][: len(kills) + 1]
    broken, statuses, said = run(folder, tmp_path, kind, list(zip(replicas, [*kills, None])))
    assert statuses == [-signal.SIGKILL if name == "SIGKILL" else 0 for _, name in kills] + [0], said
    assert list(whole) == list(range(1, len(whole) + 1)) and len(whole) >= 15
    assert broken == whole
    return np.concatenate(list(whole.values()))


@pytest.mark.slow
@pytest.mark.parametrize("kind, kills", [("packed", [(8, "SIGKILL")]), ("dataset", [(7, "SIGTERM")])])
def test_a_killed_run_goes_on_exactly(folder, tmp_path, kind, kills):
    resumed(folder, tmp_path, kind, kills)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_killed_at_random_steps_go_on_exactly(folder, tmp_path, kind, request):
    draw = random.Random(kind)
    kills = 5 if request.config.getoption("--long") else 1 if kind in ("augmented", "mixture", "cached") else 2
    steps = sorted(draw.sample(range(1, 15), kills))
    ids = resumed(folder, tmp_path, kind, [(step, draw.choice(["SIGKILL", "SIGTERM"])) for step in steps])
    if kind != "mixture":  # Each of whose sources has epochs of its own.
        ids = ids // 1000 if kind in ("augmented", "cached") else ids
        size = 60 if kind in ("dataset", "callable") else 62
        for epoch in range(3):
            assert sorted(ids[epoch * size : (epoch + 1) * size]) == list(range(size))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:6])
def test_hosts_in_processes_of_their_own_read_their_rows(folder, tmp_path, kind, request):
    if kind not in ("packed", "records") and not request.config.getoption("--long"):
        pytest.skip("only with --long")
    of_all = {"kind": kind, "folder": str(folder)}
    log = tmp_path / "log"
    assert processes([{**of_all, "shard": [0, 1], "steps": [1, 16], "log": str(log)}])[0] == [0]
    whole = seen(log)
    # Two hosts, then four from where those ended, then two again.
    parts = [(2, [1, 5]), (4, [6, 12]), (2, [13, 16])][: 3 if request.config.getoption("--long") else 2]
    jobs = [
        {**of_all, "shard": [host, hosts], "steps": steps, "log": str(tmp_path / f"{steps[0]}-{host}")}
        for hosts, steps in parts
        for host in range(hosts)
    ]
    statuses, said = processes(jobs)
    assert statuses == [0] * len(jobs), said
    for job in jobs:
        host, hosts = job["shard"]
        first, last = job["steps"]
        expected = {step: whole[step][host::hosts] for step in range(first, last + 1)}
        assert seen(pathlib.Path(job["log"])) == expected
