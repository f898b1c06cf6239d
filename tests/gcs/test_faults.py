"""A store that fails, answers late or not to the end: nothing is lost, and what is lost is said."""

import random

import pytest

TRAIN = ("train", "--steps=60", "--save_every=20", "--eval_every=30", "--steps_per_loop=10", "--eager")
TRAIN += ("--workdir=gs://bucket/run",)


def saved(store):
    return sorted(
        int(name.split("/")[2][len("step-") :])
        for name in store.names("bucket", "run/checkpoints/")
        if name.endswith("/COMMIT.json")
    )


@pytest.fixture(scope="module")
def unfinished(emulator_class, start):
    """The objects of a run whose third save failed, and how it ended."""
    with emulator_class("bucket") as store:
        store.fault = lambda request: 403 if request.kind == "write" and "60/COMMIT" in request.name else None
        result = start(store, *TRAIN).wait()
        return {name: store.content("bucket", name) for name in store.names("bucket")}, result


@pytest.fixture
def continuable(store, unfinished):
    """The store, with that run in it."""
    for name, content in unfinished[0].items():
        store.put("bucket", name, content)
    return store


class Once:
    """A fault at the first request of each kind for a name with some part; keeps when these came, and the next."""

    def __init__(self, faults):
        self.pending = dict(faults)
        self.times = {key: [] for key in faults}

    def __call__(self, request):
        for (kind, part), times in self.times.items():
            if request.kind == kind and part in request.name:
                times.append(request.time)
                return self.pending.pop((kind, part), None)
        return None


def test_what_passes_by_itself_is_tried_again(store, run):
    store.fault = faults = Once(
        {
            ("write", "step-00000020/COMMIT"): 503,
            ("write", "step-00000040/COMMIT"): "lost",
            ("read", "step-00000020/COMMIT"): "half",
            ("read", "step-00000040/state.data"): "reset",
            ("copy", "config.json"): 500,
            ("write", "events"): 429,
            ("delete", "step-00000020"): "reset",
            ("list", "checkpoints/"): 503,
            ("stat", "config.json"): 1.0,
        }
    )
    result = run(*TRAIN)
    assert result.status == 0, result.err
    assert "warning" not in result.err
    met = {key for key in faults.times if key not in faults.pending}
    assert len(met) >= 8
    for key in met - {("stat", "config.json")}:
        first, second = faults.times[key][:2]
        assert 0.3 < second - first < 10, key  # The plugin waits before it asks again.
    store.fault = lambda request: None
    assert saved(store) == [20, 40, 60]
    assert run("evaluate", "--workdir=gs://bucket/run").out == result.out


def test_a_save_that_fails_leaves_the_last_one_and_says_so(continuable, unfinished, run):
    _, failed = unfinished
    assert failed.status == 1
    assert "cannot save step 60 in gs://bucket/run/checkpoints" in failed.err.splitlines()[-1]
    assert "PERMISSION_DENIED" in failed.err.splitlines()[-1] and "Traceback" not in failed.err
    assert saved(continuable) == [20, 40] and continuable.names("bucket", "run/checkpoints/step-00000060/state")
    continued = run(*TRAIN)
    assert continued.status == 0 and "restored step 40" in continued.err
    assert saved(continuable) == [20, 40, 60]


@pytest.mark.parametrize(
    ("kind", "part"),
    [("list", "checkpoints/"), ("stat", "COMMIT.json"), ("read", "step-00000040/COMMIT"), ("read", "00040/state.data")],
)
def test_a_run_that_cannot_be_looked_at_does_not_start_over(continuable, run, kind, part):
    store = continuable
    before = {name: store.content("bucket", name) for name in store.names("bucket", "run/checkpoints/")}
    store.fault = lambda request: 403 if request.kind == kind and part in request.name else None
    result = run(*TRAIN, timeout=30)
    assert result.status == 1, result.err
    assert "Traceback" not in result.err and result.err.splitlines()[-1].startswith("tpuloop train: error: ")
    after = {name: store.content("bucket", name) for name in store.names("bucket", "run/checkpoints/")}
    kept = {name: content for name, content in before.items() if "00060" not in name}
    assert {name: content for name, content in after.items() if "00060" not in name} == kept


def test_curves_that_cannot_be_written_do_not_end_a_run(store, run):
    store.fault = lambda request: 403 if request.kind == "write" and "/events/" in request.name else None
    result = run(*TRAIN)
    assert result.status == 0, result.err
    assert "warning: cannot write events to gs://bucket/run/events/train" in result.err
    assert saved(store) == [20, 40, 60]


def test_a_long_answer_that_is_cut_off_is_read_again(store, python):
    content = random.Random(0).randbytes(1 << 20) if hasattr(random.Random, "randbytes") else bytes(1 << 20)
    store.fault = Once({("read", "step-00000005/big"): "half"})
    store.put("bucket", "big", content)
    assert python("""
        import os
        import tensorflow as tf
        from tpuloop import gcs_plugin
        from tpuloop.checkpoint.commit import read_commit, write_committed

        def write(folder):
            tf.io.gfile.copy("gs://bucket/big", f"{folder}/big")

        gcs_plugin.avoid_faults(os.environ)
        write_committed("gs://bucket/run", 5, write=write, record={})
        print(read_commit("gs://bucket/run", 5)["files"]["big"]["size"])
    """) == [str(1 << 20)]
