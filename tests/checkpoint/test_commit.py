"""A checkpoint is whole or not there, whatever happens to its files."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys

import google_crc32c
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import (
    CheckpointError,
    committed_steps,
    delete,
    folder_name,
    read_commit,
    write_committed,
)
from tpuloop.checkpoint.folders import clear_leftovers


def write_two_files(folder):
    with open(os.path.join(folder, "a"), "wb") as file:
        file.write(b"abc" * 1000)
    with open(os.path.join(folder, "empty"), "wb"):
        pass


def write(directory, step, writer=write_two_files, check=None, **record):
    return write_committed(str(directory), step, write=writer, record=record, check=check)


def test_commit_file_holds_record_sizes_and_checksums(tmp_path):
    written = write(tmp_path, 1200, seed=7)
    assert (tmp_path / "step-00001200" / "COMMIT.json").is_file()
    on_disk = json.loads((tmp_path / "step-00001200" / "COMMIT.json").read_text())
    assert on_disk == written == read_commit(str(tmp_path), 1200)
    assert on_disk == {
        "seed": 7,
        "step": 1200,
        "files": {
            "a": {"size": 3000, "crc32c": f"{google_crc32c.value(b'abc' * 1000):08x}"},
            "empty": {"size": 0, "crc32c": "00000000"},
        },
    }


def test_steps_are_listed_in_order_and_only_committed_ones(tmp_path):
    for step in (5, 100, 20, 123456789):
        write(tmp_path, step)
    os.remove(tmp_path / folder_name(20) / "COMMIT.json")
    os.makedirs(tmp_path / "step-00000030")
    (tmp_path / "step-00000040").write_text("a file")
    (tmp_path / "other-00000050").mkdir()
    (tmp_path / "other-00000050" / "COMMIT.json").write_text("{}")
    (tmp_path / "step-00000060.old").mkdir()
    (tmp_path / "step-00000060.old" / "COMMIT.json").write_text("{}")
    assert committed_steps(str(tmp_path)) == [5, 100, 123456789]


def test_no_folder_has_no_steps(tmp_path):
    assert committed_steps(str(tmp_path / "missing")) == []


def test_interrupted_write_leaves_nothing(tmp_path):
    def interrupted(folder):
        write_two_files(folder)
        raise KeyboardInterrupt

    write(tmp_path, 5)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 10, interrupted)
    assert sorted(os.listdir(tmp_path)) == ["step-00000005"]


def test_files_that_fail_their_check_are_not_committed(tmp_path):
    def check(folder):
        assert sorted(os.listdir(folder)) == ["a", "empty"]
        raise CheckpointError("it differs")

    write(tmp_path, 5)
    for step in (5, 10):
        with pytest.raises(CheckpointError, match="it differs"):
            write(tmp_path, step, check=check)
    assert os.listdir(tmp_path) == [folder_name(5)]
    read_commit(str(tmp_path), 5)


class Lossy(tf.io.gfile.GFile):
    """Loses the end of what is written to it."""

    def write(self, file_content):
        super().write(file_content[:-1])


def test_a_commit_file_that_reads_otherwise_is_an_error(tmp_path, monkeypatch):
    write(tmp_path, 5, note="old")
    monkeypatch.setattr(tf.io.gfile, "GFile", Lossy)
    with pytest.raises(CheckpointError, match=r"COMMIT.json was read back and differs"):
        write(tmp_path, 10)
    assert os.listdir(tmp_path) == [folder_name(5)]
    assert read_commit(str(tmp_path), 5)["note"] == "old"


def test_everything_is_on_the_disk_before_it_is_visible_and_the_folder_afterwards(tmp_path, monkeypatch):
    events = []
    fsync, rename = os.fsync, tf.io.gfile.rename

    def watched_fsync(descriptor):
        events.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path).split("/")[-1])
        fsync(descriptor)

    def watched_rename(*args):
        events.append("renamed")
        rename(*args)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(tf.io.gfile, "rename", watched_rename)
    write(tmp_path, 5)
    assert events == ["a", "empty", "COMMIT.json", f".writing-step-00000005-{os.getpid()}", "renamed", "."]


def test_what_a_killed_process_left_is_cleared_by_the_next_write(tmp_path):
    half = tmp_path / ".writing-step-00000010-999999999"
    half.mkdir()
    (half / "a").write_text("half")
    (tmp_path / ".writing-notes").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert committed_steps(str(tmp_path)) == []
    write(tmp_path, 10)
    assert sorted(os.listdir(tmp_path)) == [".writing-notes", "notes.txt", "step-00000010"]


def test_uncommitted_folder_of_the_same_step_is_replaced(tmp_path):
    folder = tmp_path / folder_name(5)
    folder.mkdir()
    (folder / "state.index").write_text("stale")
    write(tmp_path, 5)
    assert sorted(os.listdir(folder)) == ["COMMIT.json", "a", "empty"]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE = {
    "flipped": (flip, "a has .*crc32c.* was committed"),
    "cut": (cut, "a has .*'size': 2999.* was committed"),
    "missing": (os.remove, r"a cannot be read \(NotFoundError\)"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_file_is_named(tmp_path, kind):
    write(tmp_path, 5)
    harm, message = DAMAGE[kind]
    harm(tmp_path / folder_name(5) / "a")
    with pytest.raises(CheckpointError, match=f"step-00000005: {message}"):
        read_commit(str(tmp_path), 5)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": 3}', "\udcff"])
def test_damaged_commit_file_is_named(tmp_path, text):
    write(tmp_path, 5)
    (tmp_path / folder_name(5) / "COMMIT.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=r"step-00000005: its COMMIT.json cannot be read"):
        read_commit(str(tmp_path), 5)


class Dead(BaseException):
    """The process is no more: it changes nothing from here on."""


CHANGES = ("rename", "rmtree", "remove")


@contextlib.contextmanager
def dies_at(call):
    """The process dies at the call of that number among those that change folders, counted from 0."""
    counter = itertools.count()

    def deadly(change):
        def changed(*args, **kwargs):
            if next(counter) >= call:
                raise Dead
            return change(*args, **kwargs)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(tf.io.gfile, name, deadly(getattr(tf.io.gfile, name)))
        yield


def write_state(text):
    def writer(folder):
        for name in ("state.index", "state.data-00000-of-00001"):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)

    return writer


def text_of(directory, step):
    read_commit(str(directory), step)
    return (directory / folder_name(step) / "state.index").read_text()


def deaths():
    """Numbers of calls at which a replacement can die, until it ends alive."""
    return range(12)


@pytest.mark.parametrize("call", deaths())
@pytest.mark.parametrize("healer", ["next write", "restart"])
def test_a_death_at_any_point_of_a_replacement_loses_nothing(tmp_path, call, healer):
    write(tmp_path, 5, write_state("first"))
    write(tmp_path, 10, write_state("old"))
    try:
        with dies_at(call):
            write(tmp_path, 10, write_state("new"))
        assert call >= 5  # A replacement takes two renames and three deletions at least.
        assert text_of(tmp_path, 10) == "new"
    except Dead:
        for step in committed_steps(str(tmp_path)):
            assert text_of(tmp_path, step) in ("first", "old", "new")
    if healer == "restart":
        clear_leftovers(str(tmp_path))
        assert committed_steps(str(tmp_path)) == [5, 10]
        assert text_of(tmp_path, 10) in ("old", "new")
    else:
        write(tmp_path, 15, write_state("later"))
        assert committed_steps(str(tmp_path)) == [5, 10, 15]
        shutil.rmtree(tmp_path / folder_name(15))
    assert text_of(tmp_path, 10) in ("old", "new")
    assert sorted(os.listdir(tmp_path)) == [folder_name(5), folder_name(10)]
    assert sorted(os.listdir(tmp_path / folder_name(10))) == ["COMMIT.json", "state.data-00000-of-00001", "state.index"]


@pytest.mark.parametrize("call", deaths())
def test_a_death_while_the_leftovers_of_another_are_cleared_loses_nothing(tmp_path, call):
    write(tmp_path, 10, write_state("old"))
    with pytest.raises(Dead), dies_at(1):  # Between the two renames.
        write(tmp_path, 10, write_state("new"))
    assert committed_steps(str(tmp_path)) == []
    with contextlib.suppress(Dead), dies_at(call):
        clear_leftovers(str(tmp_path))
    clear_leftovers(str(tmp_path))
    assert text_of(tmp_path, 10) == "old"
    assert os.listdir(tmp_path) == [folder_name(10)]


def test_a_new_folder_that_cannot_be_moved_in_leaves_the_old_one(tmp_path, monkeypatch):
    write(tmp_path, 10, write_state("old"))
    rename, calls = tf.io.gfile.rename, []

    def fails_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise OSError("no space left")
        rename(*args, **kwargs)

    monkeypatch.setattr(tf.io.gfile, "rename", fails_once)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path, 10, write_state("new"))
    assert text_of(tmp_path, 10) == "old"
    assert os.listdir(tmp_path) == [folder_name(10)]


def test_an_old_folder_that_cannot_be_deleted_is_no_failed_write(tmp_path, caplog):
    write(tmp_path, 10, write_state("old"))

    def fails(path):
        raise OSError("it is busy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.io.gfile, "remove", fails)
        write(tmp_path, 10, write_state("new"))
    assert "it is busy" in caplog.text
    assert text_of(tmp_path, 10) == "new"
    clear_leftovers(str(tmp_path))
    assert os.listdir(tmp_path) == [folder_name(10)]


def test_delete_takes_one_step_only(tmp_path):
    write(tmp_path, 5)
    write(tmp_path, 10)
    delete(str(tmp_path), 5)
    assert os.listdir(tmp_path) == ["step-00000010"]


def test_files_of_others_in_a_deleted_step_stay_and_make_no_checkpoint(tmp_path):
    write(tmp_path, 5)
    folder = tmp_path / folder_name(5)
    (folder / "notes.txt").write_text("mine")
    (folder / "plots").mkdir()
    (folder / "plots" / "a").write_text("mine")
    delete(str(tmp_path), 5)
    assert sorted(os.listdir(folder)) == ["notes.txt", "plots"]
    assert os.listdir(folder / "plots") == ["a"]
    assert committed_steps(str(tmp_path)) == []


def test_a_damaged_commit_file_names_nothing_and_our_own_names_are_deleted(tmp_path):
    write(tmp_path, 5, write_state("state"))
    folder = tmp_path / folder_name(5)
    (folder / "COMMIT.json").write_text("{")
    for name in ("state.txt", "my state.index"):
        (folder / name).write_text("mine")
    delete(str(tmp_path), 5)
    assert sorted(os.listdir(folder)) == ["my state.index", "state.txt"]


@pytest.mark.parametrize("call", deaths())
def test_files_of_others_in_a_replaced_step_stay_whenever_the_process_dies(tmp_path, call):
    write(tmp_path, 5, write_state("old"))
    (tmp_path / folder_name(5) / "notes.txt").write_text("mine")
    with contextlib.suppress(Dead), dies_at(call):
        write(tmp_path, 5, write_state("new"))
    clear_leftovers(str(tmp_path))
    assert (tmp_path / folder_name(5) / "notes.txt").read_text() == "mine"
    assert text_of(tmp_path, 5) in ("old", "new")
    assert os.listdir(tmp_path) == [folder_name(5)]


def test_files_of_others_in_a_step_of_an_object_store_stay_and_are_not_ours(tmp_path):
    directory = f"ram://{tmp_path.name}/checkpoints"

    def writer(folder):
        with tf.io.gfile.GFile(f"{folder}/a", "w") as file:
            file.write("abc")

    write(directory, 5, writer)
    with tf.io.gfile.GFile(f"{directory}/step-00000005/notes.txt", "w") as file:
        file.write("mine")
    for _ in range(2):
        delete(directory, 5)
        assert tf.io.gfile.listdir(f"{directory}/step-00000005") == ["notes.txt"]
        assert list(write(directory, 5, writer)["files"]) == ["a"]


def test_object_store_gets_its_files_in_place_and_the_commit_file_last(tmp_path):
    # ram:// is a file system of TensorFlow's without a rename of folders.
    directory = f"ram://{tmp_path.name}/checkpoints"
    seen = []

    def writer(folder):
        seen.append(folder)
        with tf.io.gfile.GFile(f"{folder}/a", "w") as file:
            file.write("abc")
        assert not tf.io.gfile.exists(f"{folder}/COMMIT.json")

    write(directory, 5, writer)
    assert seen == [f"{directory}/step-00000005"]
    assert committed_steps(directory) == [5]
    assert read_commit(directory, 5)["files"]["a"]["size"] == 3

    def interrupted(folder):
        with tf.io.gfile.GFile(f"{folder}/state.index", "w") as file:
            file.write("abc")
        raise OSError

    with pytest.raises(OSError):
        write(directory, 10, interrupted)
    assert committed_steps(directory) == [5]
    assert tf.io.gfile.exists(f"{directory}/step-00000010/state.index")
    write(directory, 11, writer)
    assert not tf.io.gfile.exists(f"{directory}/step-00000010/state.index")  # It was no checkpoint, and took space.
    write(directory, 10, writer)
    assert committed_steps(directory) == [5, 10, 11]


def test_what_another_living_process_writes_is_left_alone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = tmp_path / f".writing-step-00000010-{other.pid}"
        theirs.mkdir()
        write(tmp_path, 5)
        assert theirs.exists()
        other.stdin.close()
        other.wait()
        write(tmp_path, 6)
        assert not theirs.exists()


@pytest.mark.parametrize(
    "change",
    [{"step": 99}, {"files": {}}, {"files": None}, {"step": None}],
    ids=["step", "no file", "no files", "none"],
)
def test_a_commit_file_that_cannot_be_true_is_damaged(tmp_path, change):
    write(tmp_path, 5)
    path = tmp_path / folder_name(5) / "COMMIT.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError, match="its COMMIT.json cannot be read"):
        read_commit(str(tmp_path), 5)
