"""Worker processes: order, errors, and deaths."""

import importlib
import os
import signal

import pytest

from tpuloop.data.convert.workers import WorkerDied, run_all
from tpuloop.errors import UsageError


@pytest.fixture
def work(monkeypatch):
    """The functions for workers, from a place that they search too."""
    monkeypatch.syspath_prepend(os.path.dirname(os.path.abspath(__file__)))
    return importlib.import_module("jobs_for_workers")


def test_results_are_in_order_and_progress_is_whole(work):
    progress = []
    results = run_all(work=work.double, setting=3, jobs=range(7), count=2, on_progress=progress.append)
    assert results == [0, 3, 6, 9, 12, 15, 18] and sum(progress) == 21


def test_no_jobs(work):
    assert run_all(work=work.double, setting=3, jobs=[], count=2) == []


def test_of_several_errors_the_first_job_s(work):
    with pytest.raises(UsageError, match="job 0"):
        run_all(work=work.fail_late_at_first, setting=None, jobs=range(5), count=3)


@pytest.mark.parametrize("name, more", [("SIGKILL", r" \(out of memory\?\)"), ("SIGABRT", "")])
def test_a_worker_that_dies_is_one_line(work, name, more):
    with pytest.raises(WorkerDied, match=f"^a worker process was killed by {name}{more}$"):
        run_all(work=work.signal_itself, setting=signal.Signals[name], jobs=range(3), count=2)


def test_signals_to_the_group_are_the_parent_s_to_handle(work):
    for number in (signal.SIGINT, signal.SIGTERM):
        assert run_all(work=work.signal_itself, setting=number, jobs=[4, 5], count=2) == [4, 5]


def test_a_bug_in_a_worker_ends_it(work, capfd):
    with pytest.raises(WorkerDied, match="ended with status 1"):
        run_all(work=work.bug, setting=None, jobs=[1], count=1)
    assert "ZeroDivisionError" in capfd.readouterr().err
