"""Folders of pictures as data sets, up to a run of them as a real process."""

import collections
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.faults import find_fault
from tpuloop.data.images.folder import ImageFolder
from tpuloop.data.images.preprocess import eval_image, train_image, whole_image
from tpuloop.data.images.split import split_by_hash
from tpuloop.data.sets.pictures import imagenet, images
from tpuloop.errors import UsageError

COLOURS = {"blue": (30, 30, 220), "green": (30, 200, 30), "red": (220, 30, 30)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pictures):
    """Pictures of one colour, 20 of each of three classes, of several sizes and kinds."""
    path = tmp_path_factory.mktemp("colours")
    write(path, pictures, range(20))
    return path


def write(path, pictures, numbers):
    noise = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (path / name).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            pixels = np.clip(noise.normal(colour, 12, [16 + number, 24, 3]), 0, 255).astype(np.uint8)
            kind = ("jpeg", "png", "bmp")[number % 3]
            (path / name / f"{number}.{kind}").write_bytes(getattr(pictures, kind)(pixels))


def one_pass(source):
    batches = list(source.one_pass(batch_size=7))
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def test_a_folder_split_by_hash(folder):
    data = images(path=str(folder), size=12, held_out=0.3)
    assert data.model_arguments == {"input_shape": (12, 12, 3), "num_classes": 3}
    assert data.train.element_spec == data.evaluation.element_spec == (
        tf.TensorSpec([12, 12, 3], tf.float32),
        tf.TensorSpec([], tf.int64),
    )  # fmt: skip
    assert data.train.size + data.evaluation.size == 60 and 8 <= data.evaluation.size <= 28
    assert data.description == (f"{data.train.size} pictures of 3 classes to train on, {data.evaluation.size} held out")
    for source in (data.train, data.evaluation):
        x, y = one_pass(source)
        # The strongest colour is what the name of the class says: blue, green, red.
        np.testing.assert_array_equal(2 - x.mean(axis=(1, 2)).argmax(axis=1), y)


def test_held_out_pictures_give_their_middle_and_others_a_part_that_changes(folder):
    data = images(path=str(folder), size=12)
    (x, _), *_ = data.evaluation.one_pass(batch_size=1)
    files = sorted(folder.glob("*/*"), key=lambda file: (file.parent.name, file.name))
    held_out = split_by_hash(
        ImageFolder(files=tuple(map(str, files)), labels=(0,) * 60, classes=("any",)), held_out=0.1
    )[1]
    np.testing.assert_array_equal(x[0], eval_image(tf.io.read_file(held_out.files[0]), size=12))
    epochs = iter(data.train.batches(batch_size=data.train.size, seed=0))
    (one, of_one), (two, of_two) = next(epochs), next(epochs)
    assert np.any(of_one != of_two)
    assert not {image.numpy().tobytes() for image in one} & {image.numpy().tobytes() for image in two}


def test_an_example_is_known_by_its_file(folder):
    train = images(path=str(folder), size=8, held_out=0).train
    assert train.whereabouts(0) == f"{folder}/blue/0.jpeg"
    assert train.whereabouts(59) == f"{folder}/red/9.jpeg"


def test_what_is_drawn_depends_on_the_seed_of_the_example(tmp_path, pictures):
    (tmp_path / "one").mkdir()
    encoded = pictures.jpeg(pictures.gradient(40, 60))
    (tmp_path / "one" / "a.jpg").write_bytes(encoded)
    for augment, made in (
        ("crop", lambda seed: train_image(tf.constant(encoded), seed, size=16)),
        (None, lambda seed: whole_image(tf.constant(encoded), size=16)),
    ):
        train = images(path=str(tmp_path), size=16, augment=augment, held_out=0).train
        of_examples = ArraySource(np.zeros([1])).map_examples(lambda example, seed: seed)
        x, _ = next(iter(train.batches(batch_size=3, seed=5)))
        seeds = next(iter(of_examples.batches(batch_size=3, seed=5)))
        for image, seed in zip(x, seeds):
            np.testing.assert_array_equal(image, made(seed))
        (later, _) = next(iter(train.batches(batch_size=1, seed=5, position=2)))
        np.testing.assert_array_equal(later[0], x[2])


def test_small_pictures_are_moved(tmp_path, pictures):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.png").write_bytes(pictures.png(np.full([16, 16, 3], 255, np.uint8)))
    train = images(path=str(tmp_path), size=16, augment="shift", held_out=0).train
    x, _ = next(iter(train.batches(batch_size=40, seed=5)))
    # White where the picture is, 0 where it was moved away from: by up to 2 pixels each way.
    rows, columns = (np.count_nonzero(x[..., 0].numpy().any(axis=axis), axis=1) for axis in (2, 1))
    assert set(rows) == set(columns) == {14, 15, 16}


def test_folders_that_say_what_is_held_out(tmp_path, pictures):
    write(tmp_path / "train", pictures, range(3))
    for name in ("val", "validation"):
        write(tmp_path / name, pictures, range(2))
    (tmp_path / "val" / "red" / "notes.txt").touch()
    data = images(path=str(tmp_path), size=8)
    assert (data.train.size, data.evaluation.size) == (9, 6)
    assert data.description == (
        "9 pictures of 3 classes to train on, 6 held out; 1 entries are no pictures and left out, such as red/notes.txt"
    )
    (tmp_path / "val" / "yellow").mkdir()
    with pytest.raises(DataError, match="has a folder 'yellow', which is not among the 3 classes to train on"):
        images(path=str(tmp_path), size=8)


def test_train_alone_is_split(tmp_path, pictures):
    write(tmp_path / "train", pictures, range(6))
    data = images(path=str(tmp_path), size=8, held_out=0.5)
    assert data.train.size + data.evaluation.size == 18 and data.evaluation.size > 2


def test_the_split_is_of_names_and_not_of_places():
    names = [f"{label}/{number}.jpg" for label in ("a", "b") for number in range(2000)]
    labels = (0,) * 2000 + (1,) * 2000

    def held(root, share, names=names, labels=labels):
        folder = ImageFolder(files=tuple(f"{root}/{name}" for name in names), labels=labels, classes=("a", "b"))
        train, evaluation = split_by_hash(folder, held_out=share)
        assert sorted(train.files + evaluation.files) == sorted(folder.files)
        assert all(file.split("/")[-2] == "ab"[label] for file, label in zip(evaluation.files, evaluation.labels))
        return {file[len(root) :] for file in evaluation.files}

    here = held("/here", 0.1)
    assert here == held("gs://bucket/there", 0.1) and here <= held("/here", 0.2)
    assert here >= held("/here", 0.1, names=names[1000:3000], labels=labels[1000:3000])
    # 400 of 4000, and 4 standard deviations of 19; of either class 200 and 4 of 13.4.
    counts = collections.Counter(name[1] for name in here)
    assert 324 < len(here) < 476 and 146 < counts["a"] < 254


def test_nothing_held_out(tmp_path, pictures):
    write(tmp_path, pictures, range(1))
    data = images(path=str(tmp_path), size=8, held_out=0)
    assert data.evaluation is None and data.description.endswith("3 classes to train on, none held out")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"size": 0}, "size must be an integer of at least 1; it is 0"),
        ({"size": "224"}, "size must be an integer of at least 1; it is '224'"),
        ({"augment": "rotate"}, "augment must be one of crop, shift, None; it is 'rotate'"),
        ({"dtype": "float16"}, "dtype must be one of float32, bfloat16; it is 'float16'"),
        ({"held_out": 1.0}, "held_out must be a share of at least 0 and below 1; it is 1.0"),
        ({"held_out": 0.9999}, "nothing is left to train on of 60 pictures with held_out=0.9999: give more"),
        ({"path": "/absent"}, "there is no folder /absent"),
    ],
)
def test_arguments_out_of_range(arguments, said, folder):
    with pytest.raises(DataError, match=re.escape(said)):
        images(**{"path": str(folder), **arguments})


def test_bfloat16(folder):
    data = images(path=str(folder), size=8, dtype="bfloat16")
    assert data.train.element_spec[0] == tf.TensorSpec([8, 8, 3], tf.bfloat16)
    x, _ = next(iter(data.train.batches(batch_size=2, seed=0)))
    assert x.dtype == tf.bfloat16


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_a_file_that_is_no_picture_is_named(content, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "page.jpg").write_bytes(content)
    train = images(path=str(tmp_path), size=8, held_out=0).train
    with pytest.raises(tf.errors.InvalidArgumentError, match="no JPEG, PNG, GIF or BMP, .*one/page.jpg"):
        next(iter(train.batches(batch_size=1, seed=0)))


def write_records(path, pictures, layout, count):
    """`count` pictures as records, of a grey level of 10 times their label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            label = number % 7
            encoded = pictures.jpeg(np.full([9 + number, 12, 3], 10 * label, np.uint8))
            if layout == "classic":
                features = {"image__encoded": encoded, "image__class__label": label + 1, "image__class__text": b"any"}
            else:
                features = {"image": encoded, "label": label, "file_name": b"any"}
            writer.write(pictures.record(**features))


@pytest.mark.parametrize(
    "layout, train, validation",
    [
        ("classic", "train-0000{}-of-00002", "validation-00000-of-00001"),
        ("tfds", "imagenet2012-train.tfrecord-0000{}-of-00002", "imagenet2012-validation.tfrecord-00000-of-00001"),
    ],
)
def test_imagenet_in_both_layouts(layout, train, validation, tmp_path, pictures):
    write_records(tmp_path / train.format(0), pictures, layout, 20)
    write_records(tmp_path / train.format(1), pictures, layout, 9)
    write_records(tmp_path / validation, pictures, layout, 8)
    data = imagenet(path=str(tmp_path), size=8, num_classes=7)
    assert data.description == "29 pictures of 7 classes to train on, 8 held out"
    assert data.model_arguments == {"input_shape": (8, 8, 3), "num_classes": 7}
    x, y = one_pass(data.evaluation)
    assert y.tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    np.testing.assert_allclose((x[:, 0, 0, 0] * 0.229 + 0.485) * 255, 10 * y, atol=1.5)
    x, y = next(iter(data.train.batches(batch_size=29, seed=0)))
    assert sorted(y.numpy()) == sorted([number % 7 for number in range(20)] + [number % 7 for number in range(9)])
    np.testing.assert_allclose((x[:, 0, 0, 0] * 0.229 + 0.485) * 255, 10 * y, atol=1.5)


def test_imagenet_in_subfolders_without_validation(tmp_path, pictures):
    write_records(tmp_path / "train" / "a.tfrecord", pictures, "tfds", 3)
    data = imagenet(path=str(tmp_path), size=8, train="train/*", validation=None)
    assert data.train.size == 3 and data.evaluation is None
    assert data.model_arguments["num_classes"] == 1000


def test_imagenet_that_is_not_there(tmp_path, pictures):
    with pytest.raises(UsageError, match=r"no file matches .*/\*train\*: check the path"):
        imagenet(path=str(tmp_path), size=8)
    write_records(tmp_path / "train-0", pictures, "tfds", 1)
    with pytest.raises(UsageError, match=r"no file matches .*/\*validation\*: check the path"):
        imagenet(path=str(tmp_path), size=8)
    with pytest.raises(DataError, match="num_classes must be an integer of at least 1; it is 0"):
        imagenet(path=str(tmp_path), size=8, num_classes=0)


@pytest.mark.parametrize(
    "record, said",
    [
        ({"x": 1}, "train-0, record 0: no layout of pictures: a record must have .*; it has x"),
        ({"image": b"", "label": 1}, r"train-0, record 0: feature image holds no picture: it is empty \(0 bytes\)"),
    ],
)
def test_a_first_record_that_is_no_picture(record, said, tmp_path, pictures):
    with tf.io.TFRecordWriter(str(tmp_path / "train-0")) as writer:
        writer.write(pictures.record(**record))
    with pytest.raises(DataError, match=said):
        imagenet(path=str(tmp_path), validation=None)


def test_files_of_records_that_are_empty_or_cut_off(tmp_path, pictures):
    (tmp_path / "train-0").touch()
    with pytest.raises(DataError, match=r"the files .*train\* hold no records"):
        imagenet(path=str(tmp_path), validation=None)
    write_records(tmp_path / "train-0", pictures, "tfds", 3)
    os.truncate(tmp_path / "train-0", (tmp_path / "train-0").stat().st_size - 5)
    with pytest.raises(DataError, match="train-0, record 2 at byte .*: the file ends inside it"):
        imagenet(path=str(tmp_path), validation=None)


@pytest.mark.parametrize(
    "features, said",
    [
        ({"image": b"<html>", "label": 1}, "feature image is no JPEG, PNG, GIF or BMP"),
        ({"image": b"any", "label": 9}, "(?s)feature label: labels must be 0 to 6 .*9"),
        ({"image": b"any"}, "Feature: label .* is required but could not be found"),
    ],
)
def test_a_later_record_that_is_no_picture(features, said, tmp_path, pictures):
    with tf.io.TFRecordWriter(str(tmp_path / "train-0")) as writer:
        writer.write(pictures.record(image=pictures.png(np.zeros([2, 2, 3], np.uint8)), label=0))
        writer.write(pictures.record(**features))
    data = imagenet(path=str(tmp_path), num_classes=7, validation=None)
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        one_pass(data.train)


def test_a_damaged_picture_is_named_by_its_file(tmp_path, pictures):
    write(tmp_path, pictures, range(2))
    file = tmp_path / "green" / "0.jpeg"
    file.write_bytes(file.read_bytes()[:-200])
    train = images(path=str(tmp_path), size=8, augment=None, held_out=0).train
    with pytest.raises(tf.errors.InvalidArgumentError):
        one_pass(train)
    fault = find_fault(train, lambda stage: stage.numbered_pass(batch_size=4))
    assert str(fault).startswith(f"{file}: decode: ")


@pytest.mark.slow
def test_damaged_pictures_are_named_by_their_record_or_skipped(tmp_path, pictures):
    noise = pictures.jpeg(np.random.default_rng(0).integers(0, 256, [64, 12, 3], np.uint8))
    with tf.io.TFRecordWriter(str(tmp_path / "train-0")) as writer:
        for label, encoded in enumerate([noise, noise, noise[:-60], noise]):
            writer.write(pictures.record(image=encoded, label=label))
    arguments = {"path": str(tmp_path), "size": 8, "num_classes": 4, "validation": None, "on_bad_record": "skip"}
    with pytest.raises(DataError, match="more than 0 bad records, the first of them .*train-0, record 2: decode: "):
        imagenet(**arguments, max_bad_records=0)
    # Most parts of a truncated picture could be decoded; it is left out all the same.
    data = imagenet(**arguments)
    assert data.description == "3 pictures of 4 classes to train on, none held out"
    assert one_pass(data.train)[1].tolist() == [0, 1, 3]


RECIPE = """
import ml_collections

def get_config():
    return ml_collections.ConfigDict(dict(
        data=dict(name="images", path={path!r}, size=8, held_out=0.2),
        model=dict(name="mlp", hidden=(16,)), steps=40, global_batch=16,
    ))
"""


@pytest.mark.slow
def test_a_run_as_a_process(folder, tmp_path):
    (tmp_path / "recipe.py").write_text(RECIPE.format(path=str(folder)))
    done = subprocess.run(
        [sys.executable, "-m", "tpuloop", "train", f"--config={tmp_path}/recipe.py", f"--workdir={tmp_path}/run"],
        env={name: value for name, value in os.environ.items() if not name.startswith("TF_")},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"data: \d+ pictures of 3 classes to train on, \d+ held out", done.stderr)
    accuracy = re.fullmatch(r"held-out accuracy (\S+), loss \S+ at step 40\n", done.stdout).group(1)
    assert float(accuracy) == 1.0
