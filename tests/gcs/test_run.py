"""The commands with a workdir on gs://."""

import io
import json
import os
import signal

import numpy as np
import pytest

TRAIN = ("train", "--steps=60", "--save_every=20", "--eval_every=30", "--steps_per_loop=10")
EAGER = (*TRAIN, "--eager")  # Not compiled, which takes a moment less.
RUN = "--workdir=gs://bucket/run"


def saved(store):
    """The steps that have a commit file."""
    return [
        int(name.split("/")[2][len("step-") :])
        for name in store.names("bucket", "run/checkpoints/")
        if name.endswith("/COMMIT.json")
    ]


def at(kind, part, action):
    """A fault at the first request of a kind for a name with that part: what `action` gives, before it is answered."""
    pending = [True]

    def fault(request):
        if pending[0] and request.kind == kind and part in request.name:
            pending[0] = False
            return action()
        return None

    return fault


def test_a_run_from_its_start_to_its_predictions(store, run, curve):
    trained = run(*TRAIN, "--workdir=gs://bucket//run/")
    assert trained.status == 0, trained.err
    assert saved(store) == [20, 40, 60]
    assert json.loads(store.content("bucket", "run/config.json"))["recipe"]["steps"] == 60
    assert curve() == list(range(1, 61)) and curve("eval") == [30, 60]
    everything = store.names("bucket")

    again = run(*TRAIN, RUN)
    assert again.status == 0 and "gs://bucket/run is finished" in again.err
    assert run("evaluate", RUN).out == trained.out
    assert store.names("bucket") == everything

    predicted = run("predict", f"{RUN}/")
    assert predicted.status == 0, predicted.err
    predictions = np.load(io.BytesIO(store.content("bucket", "run/predictions.npz")))
    assert predictions["predictions"].shape == (360, 10)

    exported = run("export", RUN)
    assert exported.status == 0, exported.err
    assert {"run/export/saved_model.pb", "run/export/variables/variables.index"} <= set(
        store.names("bucket", "run/export")
    )
    assert run("export", RUN).status == 2
    assert not [name for name in store.names("bucket") if "writing" in name or "temp" in name or "probe" in name]


def test_predicts_for_examples_in_the_store(store, run):
    assert run("train", "--steps=3", "--eager", RUN).status == 0
    file = io.BytesIO()
    np.savez(file, x=np.zeros((5, 8, 8, 1), np.float32))
    store.put("bucket", "examples.npz", file.getvalue())
    predicted = run("predict", RUN, "--input=gs://bucket/examples.npz", "--output=gs://bucket/five.csv")
    assert predicted.status == 0, predicted.err
    assert store.content("bucket", "five.csv").count(b"\n") == 6
    missing = run("predict", RUN, "--input=gs://bucket/none.npz")
    assert missing.status == 2 and "--input=gs://bucket/none.npz cannot be read" in missing.err


def test_sigterm_and_the_same_command_again(store, start, run, curve):
    process = start(store, *EAGER, RUN)
    store.fault = at("write", "step-00000020/COMMIT", lambda: os.kill(process.pid, signal.SIGTERM))
    stopped = process.wait()
    assert stopped.status == 75, stopped.err
    assert 20 <= saved(store)[-1] < 60
    continued = run(*EAGER, RUN)
    assert continued.status == 0 and "continues after step" in continued.err
    assert saved(store)[-1] == 60
    assert curve() == list(range(1, 61))


def test_killed_in_the_middle_of_a_save(store, start, run):
    process = start(store, *EAGER, RUN)
    store.fault = at("write", "step-00000040/COMMIT", lambda: os.kill(process.pid, signal.SIGKILL) or "reset")
    assert process.wait().status == -signal.SIGKILL
    assert saved(store) == [20] and store.names("bucket", "run/checkpoints/step-00000040/state")
    evaluated = run("evaluate", RUN)  # Touches nothing.
    assert evaluated.status == 0 and store.names("bucket", "run/checkpoints/step-00000040/state")
    continued = run(*EAGER, RUN)
    assert continued.status == 0 and "restored step 20" in continued.err, continued.err
    assert saved(store) == [20, 40, 60]


@pytest.mark.parametrize(
    ("workdir", "message"),
    [
        ("gs://", "gs:// names no bucket: write gs://BUCKET/FOLDER"),
        ("gs:/bucket/run", "write gs://bucket/run, with two slashes"),
        ("gs://other/run", "there is no bucket other: make it, or correct the name"),
        ("gs://other", "there is no bucket other: make it, or correct the name"),
        ("gs://bucket/file", "is a file: give a folder"),
    ],
)
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_workdir_that_cannot_be_one(store, run, command, workdir, message):
    store.put("bucket", "file", b"x")
    result = run(command, f"--workdir={workdir}", timeout=20)
    assert result.status == 2
    assert message in result.err.splitlines()[-1] and "Traceback" not in result.err
    assert store.names("bucket") == ["file"]


@pytest.mark.parametrize(
    "kinds", [("read", "stat", "list", "write", "bucket", "copy", "delete"), ("write",), ("list",)]
)
def test_no_permission_is_one_line_and_soon(store, run, kinds):
    store.fault = lambda request: 403 if request.kind in kinds else None
    result = run(*EAGER, RUN, timeout=20)
    assert result.status == 2, result.err
    assert "PERMISSION_DENIED" in result.err.splitlines()[-1] and "Traceback" not in result.err


def test_the_root_of_a_bucket(store, run):
    assert run("train", "--steps=3", "--eager", "--workdir=gs://bucket").status == 0
    assert "config.json" in store.names("bucket") and "checkpoints/step-00000003/COMMIT.json" in store.names("bucket")
    assert run("evaluate", "--workdir=gs://bucket/").status == 0
