"""`tpuloop data bench`: the verdict by exact numbers, and the command on data of each kind."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.commands.data import pipeline
from tpuloop.commands.data.verdict import DATASET, MEMORY, PACKED, RECORDS, Stage, verdict
from tpuloop.data.arrays import ArraySource
from tpuloop.data.feed import Feed
from tpuloop.engine.trace import StepTrace

FAST = ("--repeats=1", "--slice_seconds=0", "--step_seconds=0", "--json")

OWN_DATA = """
import numpy as np
import tensorflow as tf
from tpuloop.data.arrays import ArraySource

x, y = np.zeros([40, 8, 8, 1], np.float32), np.zeros([40], np.int64)

def dataset():
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(16), None

def augmented():
    source = ArraySource((x, y)).map_batches(lambda batch: batch).map_examples(lambda example, seed: example)
    return source, None
"""


def stages(*rates, size=100):
    names = ["read", "parse", "augment", "batch", "to device"][: len(rates) - 1] + ["to device"]
    return [Stage(name, rate, size) for name, rate in zip(names, rates)]


@pytest.mark.parametrize(
    ("supplied", "waiting", "judgement"),
    [
        (2000, 0, "not"),
        (1000, 0, "not"),
        (960, 0.04, "not"),
        (950, 0.05, "somewhat"),
        (800, 0.2, "somewhat"),
        (750, 0.25, "highly"),
        (100, 0.9, "highly"),
    ],
)
def test_how_long_the_step_waits(supplied, waiting, judgement):
    result = verdict([Stage("read", supplied, 1)], wanted=1000, stored=PACKED)
    assert result.waiting == pytest.approx(waiting)
    assert result.judgement == judgement
    assert result.sentence.startswith(f"{judgement.capitalize()} input-bound")


def test_the_bottleneck_is_the_stage_that_adds_most_time():
    # Milliseconds an example: read 1, parse 1 more, augment 8, batch none, to device none.
    result = verdict(stages(1000, 500, 100, 100, 101), wanted=200, stored=RECORDS)
    assert result.bottleneck == "augment"
    assert result.share == pytest.approx(0.8)
    assert result.waiting == pytest.approx(1 - 101 / 200)
    assert result.sentence == (
        "Highly input-bound: the step waits for data 50% of its time; of the pipeline's time, 80% goes to the stage "
        "'augment'. Make 'augment' cheaper: store its result, do it in the step on the accelerator, or give the host "
        "more cores."
    )


def test_the_sentence_where_all_is_well():
    result = verdict(stages(1000, 500), wanted=100, stored=MEMORY)
    assert result.sentence == (
        "Not input-bound: the data comes 5.0 times as fast as the step takes it; of the pipeline's time, 50% goes to "
        "the stage 'read'."
    )


@pytest.mark.parametrize(
    ("bottleneck", "stored", "remedy"),
    [
        ("read", PACKED, "Keep what fits in memory (source.cached(), or the field cache of --data=records), bring"),
        ("read", RECORDS, "tpuloop data convert"),
        ("read", MEMORY, "larger batch"),
        ("parse", RECORDS, "tpuloop data convert"),
        ("batch", DATASET, "num_parallel_calls"),
        ("batch", PACKED, "larger batch"),
        ("to device", PACKED, "fewer bytes"),
        ("decode", RECORDS, "Make 'decode' cheaper"),
    ],
)
def test_each_bottleneck_has_its_remedy(bottleneck, stored, remedy):
    result = verdict([Stage("first", 1e6, 1), Stage(bottleneck, 10, 1)], wanted=1000, stored=stored)
    assert result.bottleneck == bottleneck
    assert remedy in result.sentence


def test_megabytes_are_of_what_comes_out():
    assert Stage("read", 2000, 500).megabytes_per_second == 1


def test_bytes_of_a_batch():
    numbers = tf.data.Dataset.from_tensors({"x": tf.zeros([4, 3]), "s": tf.constant(["ab", "", "c", "def"])})
    assert pipeline._rows_and_bytes(numbers) == (4, 4 * 3 * 4 + 6)
    uneven = tf.data.Dataset.range(5).batch(2)
    assert pipeline._rows_and_bytes(uneven) == (pytest.approx(5 / 3), pytest.approx(40 / 3))


def test_stages_of_one_name_are_told_apart():
    assert pipeline._unused("augment", {"read": 0, "augment": 0, "augment 2": 0}) == "augment 3"
    assert pipeline._unused("parse", {"read": 0}) == "parse"


def test_the_wait_for_data_and_the_first_call_do_not_count():
    clock = pipeline._Clock(2.0)
    clock.set_model(tf.keras.Sequential())

    def call(asked, came, ended):
        clock.on_steps_end(StepTrace(1, {}, {}, *(np.array(values) for values in (asked, came, ended))))

    call([0.0], [9.0], [10.0])
    call([10.0, 11.0], [10.5, 11.0], [11.0, 11.9])
    assert not getattr(clock.model, "stop_training", False)
    call([11.9], [11.9], [12.0])
    assert clock.model.stop_training
    assert clock.steps == pytest.approx([0.5, 0.9, 0.1])


def test_a_stage_is_measured_with_all_before_it(monkeypatch):
    """Rates come from streams of the stages' own batches, each with its size."""
    doubled = ArraySource(np.zeros([8, 2], np.float32)).map_batches(lambda x: tf.tile(x, [1, 2]), name="double")
    seen = {}

    def rates(streams, **_):
        seen.update({name: next(make()).shape for name, make in streams.items()})
        return {name: [10.0 / (place + 1)] for place, name in enumerate(streams)}

    class Loop:
        class settings:
            seed = 0

        @staticmethod
        def iterator(feed):
            return iter(feed.dataset)

    monkeypatch.setattr(pipeline, "batches_per_second", rates)
    feed = Feed(doubled.batches(batch_size=4, seed=0), None, True, 2)
    found = pipeline.measured_stages(Loop, doubled, feed, batch_size=4, repeats=1, slice_seconds=0)
    assert seen == {"read": [4, 2], "double": [4, 4], "batch": [4, 4], "to device": [4, 4]}
    assert [(stage.name, stage.bytes_per_example) for stage in found] == [
        ("read", 8),
        ("double", 16),
        ("batch", 16),
        ("to device", 16),
    ]
    assert [stage.examples_per_second for stage in found] == pytest.approx([40, 20, 40 / 3, 10])


def test_command_on_the_digits(quick_tpuloop):
    result = quick_tpuloop("data", "bench", "--config=mlp_digits", "--global_batch=32", *FAST)
    assert result.status == 0, result.err
    results = json.loads(result.out)
    assert [stage["name"] for stage in results["stages"]] == ["read", "batch", "to device"]
    assert results["batch"] == 32 and results["data"] == "memory"
    # 64 pixels of four bytes, and a label of eight.
    assert [stage["bytes_per_example"] for stage in results["stages"]] == [264] * 3
    step = results["step"]
    assert step["examples_per_second"] == pytest.approx(32 / step["seconds"])
    assert results["verdict"]["sentence"]


@pytest.mark.parametrize(
    ("data", "more", "names"),
    [
        ("dataset", ["--nojson"], ["batch", "to device"]),
        ("augmented", ["--nojson", "--replicas=2"], ["read", "parse", "augment", "batch", "to device"]),
    ],
)
def test_command_on_data_of_ones_own(tmp_path, quick_tpuloop, data, more, names):
    (tmp_path / "own.py").write_text(OWN_DATA)
    model = ["--model=mlp", "--config.model.input_shape=(8,8,1)", "--config.model.num_classes=10"]
    arguments = [f"--data=own:{data}", *model, *FAST, *more]
    result = quick_tpuloop("data", "bench", *arguments, cwd=tmp_path)
    assert result.status == 0, result.err
    rows = [line.split("  ")[1] for line in result.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert rows[: len(names) + 1] == [*names, "the step takes"]
    assert ("cannot be told apart" in result.out) == (data == "dataset")
    assert "input-bound" in result.out.splitlines()[-1]


def test_wrong_use_is_told_in_one_line(quick_tpuloop):
    result = quick_tpuloop("data", "bench", "--data=digts")
    assert result.status == 2 and "did you mean 'digits'?" in result.err
    assert len(result.err.splitlines()) == 1
