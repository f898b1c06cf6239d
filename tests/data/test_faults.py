"""What is wrong with an example is named: the file, the record, the stage and the feature, wherever it shows."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import committed_steps
from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.faults import find_fault, naming_faults
from tpuloop.data.mixture import MixtureSource
from tpuloop.data.records.framing import frame
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings


def fault_of(source):
    """The fault that one pass over a source meets, in words."""
    try:
        with naming_faults(source, lambda stage: stage.numbered_pass(batch_size=4)):
            for _ in source.one_pass(batch_size=4):
                pass
    except DataError as error:
        return str(error)
    return None


REMEDY = ": mend the file, or leave such records out (on_bad_record=skip)"


@pytest.mark.parametrize(
    "damage, record, says",
    [
        ("data", 3, "the checksum of its data is wrong"),
        ("length", 3, "the checksum of its length is wrong, so that nothing after it can be found"),
        ("cut", 6, "the file ends inside it"),
        ("short", 6, "the file ends before it"),
        ("gone", 0, "the file cannot be read: [Errno 2] No such file or directory"),
    ],
)
def test_damage_in_a_file(files, flip_byte, damage, record, says):
    source = files.records([5, 7])
    path = source.files[1].path
    if damage in ("data", "length"):
        flip_byte(path, record, damage)
    elif damage == "gone":
        os.remove(path)
    else:
        os.truncate(path, os.path.getsize(path) - (2 if damage == "cut" else len(frame(b"11"))))
    if damage == "short":  # TensorFlow sees nothing wrong.
        assert str(source.find_fault()) == f"{path}, record {record}: {says}"
    else:
        assert fault_of(source).startswith(f"{path}, record {record}: {says}")
        assert fault_of(source).endswith(REMEDY)


def test_damage_in_a_compressed_file(files):
    source = files.records([5, 7], compression="GZIP")
    os.truncate(source.files[1].path, os.path.getsize(source.files[1].path) - 12)
    assert fault_of(source).startswith(f"{source.files[1].path}, record ")


def test_a_packed_record_of_another_length(files):
    source = files.packed([8, 6], per_record=4)
    assert source.find_fault() is None
    path = source.files[1].path
    with open(path, "rb") as file:
        content = file.read()
    first = len(frame(b"x" * 4 * 21))
    with open(path, "wb") as file:
        file.write(content[:first] + frame(b"x" * 40))  # In the place of the short one, of 42 bytes.
    assert fault_of(source) == (f"{path}, record 1: it has 40 bytes, and 2 examples of id, twice, odd take 42" + REMEDY)


def example(**features):
    kinds = {
        bytes: lambda value: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])),
        list: lambda value: tf.train.Feature(int64_list=tf.train.Int64List(value=value)),
    }
    encoded = {name: kinds[type(value)](value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=encoded)).SerializeToString()


PICTURE = tf.io.encode_jpeg(np.zeros([4, 4, 3], np.uint8)).numpy()
GOOD = {"picture": PICTURE, "pair": [1, 2]}


def pictures(files, bad, at):
    """24 records in 3 files, of which one is bad, as pairs of a picture and two numbers."""

    def text(number):
        return bad if number == at else example(picture=PICTURE, pair=[number, number])

    spec = {"picture": tf.io.FixedLenFeature([], tf.string), "pair": tf.io.FixedLenFeature([2], tf.int64)}
    source = files.records([8, 8, 8], text=text).map_batches(lambda batch: tf.io.parse_example(batch, spec))
    return source.map_examples(
        lambda row, seed: (tf.reshape(tf.io.decode_jpeg(row["picture"], 3), [48]) / 255, row["pair"][0]), name="decode"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad, says",
    [
        (example(picture=PICTURE), "parse: Feature: pair (data type: int64) is required but could not be found"),
        (example(picture=PICTURE, pair=[1, 2, 3]), "parse: Key: pair.  Number of int64 values != expected"),
        (example(picture=PICTURE, pair=b"1"), "parse: Key: pair.  Data types don't match"),
        (example(picture=b"no picture", pair=[1, 2]), "decode: "),
        (b"no example", "parse: Could not parse example input"),
    ],
    # Not the bytes themselves: a protocol buffer writes a map in another order in every process, and processes that
    # share the tests must agree on their names.
    ids=["a feature is missing", "a feature is too long", "a feature is of another type", "no picture", "no example"],
)
def test_an_example_that_cannot_be_used(files, bad, says):
    source = pictures(files, bad, at=21)
    said = fault_of(source)
    assert said.startswith(f"{files.folder}/part-002.tfrecord, record 5: {says}") and said.endswith(REMEDY)
    assert "{{" not in said and "[Op:" not in said and "\n" not in said


class Loop(TrainLoop):
    def forward_loss(self, batch, *, training):
        x, y = batch
        return self.model(x, training=training)[:, 0] * tf.cast(y, tf.float32)


def loop_in(workdir=None, **settings):
    model = tf.keras.Sequential([tf.keras.Input([48]), tf.keras.layers.Dense(1)])
    return Loop(model, optimizer="sgd", workdir=workdir and str(workdir), settings=LoopSettings(**settings))


@pytest.mark.slow
def test_a_run_ends_at_the_step_before_and_goes_on_when_the_data_is_mended(files, tmp_path, flip_byte):
    source = pictures(files, example(picture=b"no picture", pair=[1, 2]), at=21)
    order = [
        number
        for _, origin in source.stages()[0][1].numbered_batches(batch_size=4, seed=0).take(12)
        for number in origin.numbers.numpy()
    ]
    step = order.index(21) // 4  # Whole steps before it.
    assert step > 0
    for per_loop in (2, 5):
        workdir = tmp_path / f"run-{per_loop}"
        with pytest.raises(DataError, match="part-002.tfrecord, record 5: decode: .*on_bad_record=skip"):
            loop_in(workdir, steps_per_loop=per_loop).fit(source, batch_size=4, steps=12)
        assert committed_steps(str(workdir / "checkpoints")) == [step]
    with pytest.raises(DataError, match="part-002.tfrecord, record 5: decode: "):
        loop_in().evaluate(source, batch_size=4)
    with pytest.raises(DataError, match="part-002.tfrecord, record 5: decode: "):
        loop_in().predict(source, batch_size=4)
    files.written = 0
    loop = loop_in(workdir)
    loop.fit(pictures(files, None, at=None), batch_size=4, steps=12)
    assert int(loop.step) == 12


@pytest.mark.slow
def test_the_evaluation_of_a_run_names_its_example_and_saves_the_steps(files, tmp_path):
    source = pictures(files, b"no example", at=9)
    good = ArraySource((np.zeros([8, 48], np.float32), np.ones(8, np.int64)))
    with pytest.raises(DataError, match="part-001.tfrecord, record 1: parse: "):
        loop_in(tmp_path / "run").fit(good, batch_size=4, steps=4, eval_data=source, eval_every=3)
    assert committed_steps(str(tmp_path / "run" / "checkpoints")) == [3]


def test_a_fault_inside_a_mixture_and_behind_a_cache(files, flip_byte):
    bad = files.records([4, 6])
    flip_byte(bad.files[1].path, 2)
    mixture = MixtureSource([files.records([3]), bad])
    assert f"{bad.files[1].path}, record 2: the checksum of its data is wrong" in fault_of(mixture)
    with pytest.raises(DataError, match="part-001.tfrecord, record 2: the checksum of its data is wrong"):
        bad.cached()


def test_what_is_no_fault_of_an_example_stays_as_it_is(files):
    source = files.records([6])
    assert find_fault(source, lambda stage: stage.numbered_pass(batch_size=4)) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"):
        with naming_faults(source, lambda stage: stage.numbered_pass(batch_size=4)):
            raise tf.errors.InvalidArgumentError(None, None, "mine")


RECIPE = """
import ml_collections

def get_config():
    return ml_collections.ConfigDict(dict(
        data=dict(name="records", path={path!r}), model=dict(name="mlp", hidden=(4,)),
        steps=30, global_batch=8, steps_per_loop=10,
    ))
"""


@pytest.mark.slow
def test_a_command_ends_with_status_two_or_skips(tmp_path, flip_byte):
    (tmp_path / "table.csv").write_text("a,b,label\n" + "".join(f"{n},{n % 7},{n % 2}\n" for n in range(300)))
    (tmp_path / "recipe.py").write_text(RECIPE.format(path=f"{tmp_path}/data"))

    def tpuloop(*arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        return subprocess.run(
            [sys.executable, "-m", "tpuloop", *arguments],
            env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120,
        )  # fmt: skip

    done = tpuloop("data", "convert", "table.csv", "--out=data", "--label=label", "--examples_per_record=8")
    assert done.returncode == 0, done.stderr
    train = sorted((tmp_path / "data").glob("train-*"))[0]
    flip_byte(train, 3)
    run = ("train", "--config=recipe.py", "--workdir=run")
    failed = tpuloop(*run)
    assert failed.returncode == 2, failed.stderr
    assert f"{train}, record 3: the checksum of its data is wrong: mend the file" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    skipped = tpuloop("train", "--config=recipe.py", "--workdir=other", "--on_bad_record=skip")
    assert skipped.returncode == 0, skipped.stderr
    assert "left out 1 bad records with 8 of " in skipped.stderr and f"{train}, record 3: " in skipped.stderr
