import pytest

from tpuloop import paths
from tpuloop.errors import UsageError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gs://bucket/run", "gs://bucket/run"),
        ("gs://bucket/run/", "gs://bucket/run"),
        ("gs://bucket//a///run//", "gs://bucket/a/run"),
        ("gs://bucket/", "gs://bucket/"),
        ("gs://bucket", "gs://bucket/"),
        ("file:///tmp/run/", "file:///tmp/run"),
        ("/tmp//run/", "/tmp//run/"),
        ("run", "run"),
        ("", ""),
    ],
)
def test_one_way_to_write_a_path(written, meant):
    assert paths.normalised(written) == meant


@pytest.mark.parametrize("path", ["gs://", "gs:///run", "gs:////"])
def test_a_path_without_a_bucket(path):
    with pytest.raises(UsageError, match="names no bucket: write gs://BUCKET/FOLDER"):
        paths.normalised(path)


def test_a_slash_too_few_is_no_local_folder():
    with pytest.raises(UsageError, match="write gs://bucket/run, with two slashes"):
        paths.normalised("gs:/bucket/run")


def test_join():
    assert paths.join("gs://bucket/run//", "events", "train") == "gs://bucket/run/events/train"
    assert paths.join("gs://bucket", "run") == "gs://bucket/run"
    assert paths.join("runs/a/", "events") == "runs/a/events"


def test_is_remote():
    assert paths.is_remote("gs://bucket") and not paths.is_remote("/gs/bucket") and not paths.is_remote("a:b")


@pytest.fixture
def folder(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "c.txt", "odd[1].tfrecord"):
        (tmp_path / name).write_text("x")
    (tmp_path / "inner.tfrecord").mkdir()
    return tmp_path


def test_files_are_sorted_and_named_once(folder):
    found = paths.files_matching([f"{folder}/*.tfrecord", f"{folder}/a.tfrecord", f"{folder}/c.txt"])
    assert found == [f"{folder}/{name}" for name in ("a.tfrecord", "b.tfrecord", "c.txt", "odd[1].tfrecord")]


def test_a_name_with_brackets_is_a_name_first(folder):
    assert paths.files_matching(f"{folder}/odd[1].tfrecord") == [f"{folder}/odd[1].tfrecord"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*.csv", r"no file matches .*\*\.csv: check the path"),
        ("d.tfrecord", r"there is no file .*d\.tfrecord: check the path"),
        ("none/*.csv", r"no file matches .*none/\*\.csv"),
        ("inner*", r"no file matches .*inner\*"),
        ("inner.tfrecord", r"is a folder: name its files, as in .*inner\.tfrecord/\*\.tfrecord"),
        ("", r"is a folder"),
    ],
)
def test_what_names_no_file(folder, pattern, message):
    with pytest.raises(UsageError, match=message):
        paths.files_matching([f"{folder}/a.tfrecord", f"{folder}/{pattern}"])


def test_no_pattern_at_all():
    with pytest.raises(UsageError, match="no file is named"):
        paths.files_matching([])


def test_a_file_system_that_is_not_there():
    with pytest.raises(UsageError, match="nosuch://a/b cannot be looked up: "):
        paths.files_matching("nosuch://a/b")
