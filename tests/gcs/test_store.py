"""Checkpoints, events and data on gs://, without the commands."""

import json
import textwrap

SETUP = """
import os
import tensorflow as tf
from tpuloop import gcs_plugin
from tpuloop.checkpoint import commit

gcs_plugin.avoid_faults(os.environ)

def writer(text):
    def write(folder):
        with tf.io.gfile.GFile(f"{folder}/state.index", "w") as file:
            file.write(text)
    return write

def save(step, text, **record):
    commit.write_committed("gs://bucket/c", step, write=writer(text), record=record)
"""


def test_a_checkpoint_that_is_written_again_is_never_gone(store, python):
    seen = []

    def watch(request):
        if request.kind in ("write", "delete"):
            seen.append(store.content("bucket", "c/step-00000005/COMMIT.json"))

    python(SETUP + 'save(5, "first" * 9, turn=1)')
    store.fault = watch
    python(
        SETUP
        + """
def fails(folder):
    writer("broken")(folder)
    raise OSError("no")

try:
    commit.write_committed("gs://bucket/c", 5, write=fails, record={"turn": 2})
except OSError:
    print(commit.read_commit("gs://bucket/c", 5)["turn"])
save(5, "third", turn=3)
"""
    )
    turns = [json.loads(content)["turn"] for content in seen]
    assert turns[0] == 1 and turns[-1] == 3 and turns == sorted(turns)
    # Old files, and those of the save that failed, are gone.
    names = store.names("bucket", "c/")
    commit = json.loads(store.content("bucket", "c/step-00000005/COMMIT.json"))
    assert names == ["c/step-00000005/COMMIT.json", *(f"c/step-00000005/{name}" for name in commit["files"])]
    assert store.content("bucket", names[1]) == b"third"


def test_a_train_loop_resumes_and_saves_its_last_step_again(store, python):
    code = """
    import logging
    import numpy as np, tensorflow as tf, tpuloop

    logging.basicConfig(level=logging.WARNING)
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(300,)), tf.keras.layers.Dense(200)])
    model.compile("adam", "mse")
    loop = tpuloop.TrainLoop(model, workdir="gs://bucket//run/")
    x = np.random.RandomState(0).rand(32, 300).astype(np.float32)
    loop.fit(x, np.zeros((32, 200), np.float32), batch_size=8, steps={steps})
    print(int(loop.step.numpy()), float(np.sum([np.abs(w).sum() for w in model.get_weights()])))
    """
    code = textwrap.dedent(code)
    python(code.replace("{steps}", "5"))
    (resumed,) = python(code.replace("{steps}", "10"))
    assert [name for name in store.names("bucket") if name.endswith("COMMIT.json")] == [
        f"run/checkpoints/step-{step:08d}/COMMIT.json" for step in (5, 10)
    ]
    for name in store.names("bucket"):
        store.remove("bucket", name)
    assert python(code.replace("{steps}", "10")) == [resumed]


def test_records_by_a_pattern(store, python):
    lines = python(
        SETUP
        + """
from tpuloop.paths import files_matching

for shard in "ab":
    with tf.io.TFRecordWriter(f"gs://bucket/data/{shard}/part-0.tfrecord") as file:
        for number in range(3000):
            file.write(f"{shard}{number}".encode() * 30)
for pattern in ("gs://bucket/data/*/part-*", "gs://bucket//data/a/*.tfrecord", ["gs://bucket/data/b/part-0.tfrecord"]):
    files = files_matching(pattern)
    print(*files, sum(1 for _ in tf.data.TFRecordDataset(files)))
for pattern in ("gs://bucket/data/*", "gs://bucket/data/a", "gs://bucket/none/*", "gs://other/*", "gs://"):
    try:
        print(files_matching(pattern))
    except ValueError as error:
        print(error)
"""
    )
    a, b = (f"gs://bucket/data/{shard}/part-0.tfrecord" for shard in "ab")
    assert lines[:3] == [f"{a} {b} 6000", f"{a} 3000", f"{b} 3000"]
    for line, message in zip(
        lines[3:], ("no file matches", "is a folder", "no file matches", "no bucket other", "names no")
    ):
        assert message in line
    assert len(lines) == 8


def test_events_of_a_long_run_go_to_several_files(store, python, curve):
    python(
        SETUP
        + """
import numpy as np
from tpuloop.callbacks import event_file

event_file._REMOTE_BYTES = 12_000
events = event_file.EventFile("gs://bucket/run/events/train")
for start in range(0, 1000, 100):
    steps = np.arange(start + 1, start + 101)
    events.add_steps(["loss"], steps=steps, wall_times=steps * 1.0, values=[steps * 1.0])
    events.flush()
events.close()
"""
    )
    sizes = [len(store.content("bucket", name)) for name in store.names("bucket", "run/events/")]
    assert len(sizes) == 4 and max(sizes) < 16_000  # A file ends with the flush that finds it full.
    assert curve() == list(range(1, 1001))
