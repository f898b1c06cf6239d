"""What a manifest says, and what is said of one that is missing, damaged, newer, or of files that are gone."""

import json

import pytest

from tpuloop.data.records.manifest import Feature, Manifest, ShardFile
from tpuloop.errors import UsageError

FEATURES = (Feature("x", "float32", (4,)), Feature("y", "int64"))
A, B = 100 * 24 + 2 * 16, 5 * 24 + 16  # Bytes of the two files: 24 an example, and 16 around each record.


def manifest(**changes):
    fields = {
        "features": FEATURES,
        "kind": "packed",
        "examples_per_record": 64,
        "splits": {"train": (ShardFile("a", 2, 100, A, 7),), "test": (ShardFile("b", 1, 5, B, 8),)},
        "label": "y",
        "classes": ("no", "sí"),
        "made": {"by": "hand"},
    }
    return Manifest(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path):
    for name, size in {"a": A, "b": B}.items():
        (tmp_path / name).write_bytes(bytes(size))
    manifest().save(str(tmp_path))
    return tmp_path


def test_it_is_read_as_it_was_written(folder):
    assert Manifest.load(str(folder)) == manifest()
    assert Manifest.load(str(folder)).examples("train") == 100
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "manifest.json"]


def test_bytes_and_dimensions_that_vary(tmp_path):
    features = (Feature("image", "bytes"), Feature("ids", "int64", (None,)))
    assert [feature.fixed for feature in features] == [False, False]
    splits = {"train": (ShardFile("a", 100, 100, 3, 7),)}
    varying = manifest(features=features, kind="examples", examples_per_record=1, label=None, splits=splits)
    varying.save(str(tmp_path))
    assert Manifest.load(str(tmp_path), check_files=False) == varying


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kind": "other"}, "kind must be"),
        ({"features": ()}, "needs features"),
        ({"features": FEATURES + FEATURES[:1]}, "one name"),
        ({"label": "z"}, "'z' is none of the features"),
        ({"examples_per_record": 0}, "examples_per_record"),
        ({"kind": "examples"}, "examples_per_record"),
        ({"features": (Feature("y", "bytes"),)}, "fixed size"),
    ],
)
def test_what_makes_no_manifest(changes, message):
    with pytest.raises(ValueError, match=message):
        manifest(**changes)


def content(folder):
    return json.loads((folder / "manifest.json").read_text())


def wrong(folder, message):
    with pytest.raises(UsageError, match=message) as caught:
        Manifest.load(str(folder))
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_none_there(tmp_path):
    wrong(tmp_path, "holds no manifest.json: make it with tpuloop data convert")
    wrong(tmp_path / "absent", "holds no manifest.json")


def test_a_newer_one(folder):
    (folder / "manifest.json").write_text(json.dumps({**content(folder), "version": 2, "new": 1}))
    wrong(folder, "has version 2, and this tpuloop reads up to 1: use a newer one")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', '{"version": "x"}', "\xff"])
def test_a_damaged_one(folder, text):
    (folder / "manifest.json").write_text(text, "latin-1")
    wrong(folder, "is damaged")


def test_a_field_that_is_missing_or_not_known(folder):
    good = content(folder)
    for name in good:
        if name not in ("made", "label"):
            (folder / "manifest.json").write_text(json.dumps({key: good[key] for key in good if key != name}))
            wrong(folder, "is damaged")
    (folder / "manifest.json").write_text(json.dumps({**good, "more": 1}))
    wrong(folder, "is damaged")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"records": 3}, "a cannot have 3 records and 100 examples"),
        ({"records": 3, "examples": 150}, "a cannot have 150 examples in 2432 bytes"),
        ({"records": "2"}, "the counts of a are"),
        ({"examples": -100}, "the counts of a are"),
    ],
)
def test_counts_that_do_not_go_together(folder, changes, message):
    edited = content(folder)
    edited["splits"]["train"][0].update(changes)
    (folder / "manifest.json").write_text(json.dumps(edited))
    wrong(folder, message)


@pytest.mark.parametrize(
    "changes, message",
    [({"shape": [3]}, "100 examples in 2432 bytes"), ({"dtype": "float33"}, "'?float33'? not under")],
)
def test_features_that_the_files_do_not_hold(folder, changes, message):
    edited = content(folder)
    edited["features"][0].update(changes)
    (folder / "manifest.json").write_text(json.dumps(edited))
    wrong(folder, message)


def test_files_that_are_gone_or_cut(folder):
    (folder / "b").write_bytes(b"12")
    wrong(folder, "b has 2 bytes, and manifest.json says 136")
    (folder / "b").unlink()
    wrong(folder, "b is missing, which manifest.json lists")
    assert Manifest.load(str(folder), check_files=False) == manifest()


def test_without_tensorflow_unless_a_path_is_remote():
    import subprocess
    import sys

    code = (
        "import sys, tpuloop.data.records.framing, tpuloop.data.records.packing, tpuloop.data.records.manifest as m\n"
        "assert 'tensorflow' not in sys.modules\n"
        "try: m.Manifest.load('absent')\nexcept ValueError: pass\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_through_tensorflow_s_file_systems(tmp_path):
    """`ram://` is the one that needs no network."""
    import tensorflow as tf

    folder = "ram://manifest/here"
    tf.io.gfile.makedirs(folder)
    with pytest.raises(UsageError, match="holds no manifest.json"):
        Manifest.load(folder)
    for name, size in {"a": A, "b": B}.items():
        with tf.io.gfile.GFile(f"{folder}/{name}", "wb") as file:
            file.write(bytes(size))
    manifest().save(folder)
    assert Manifest.load(folder) == manifest()
    tf.io.gfile.remove(f"{folder}/a")
    with pytest.raises(UsageError, match="a is missing"):
        Manifest.load(folder)
