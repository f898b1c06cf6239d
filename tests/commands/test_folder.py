"""The folder of a run, and what it refuses."""

import json
import os

import pytest
import tensorflow as tf

from tpuloop.checkpoint import commit
from tpuloop.commands.folder import RunFolder
from tpuloop.commands.recipe import Recipe, make_recipe
from tpuloop.errors import UsageError

RECIPE = Recipe().to_json()


def save(folder, step, **record):
    """A committed checkpoint of that step."""

    def write(path):
        with open(f"{path}/data", "w") as file:
            file.write("weights")

    commit.write_committed(folder.checkpoints, step, write=write, record=record)


@pytest.fixture
def folder(tmp_path):
    """The folder of a run with a checkpoint at step 10."""
    folder = RunFolder(str(tmp_path / "a run"))
    folder.record(RECIPE, program="tpuloop", flags={"replicas": 2})
    save(folder, 10)
    return folder


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file: give a folder"):
        RunFolder(str(tmp_path / "file"))


def test_the_config_file_is_enough_to_run_it_again(folder):
    config = folder.config()
    assert config["recipe"] == RECIPE
    assert config["program"] == "tpuloop" and config["flags"] == {"replicas": 2}
    assert config["versions"]["tensorflow"] == tf.__version__
    assert sorted(os.listdir(folder.path)) == ["checkpoints", "config.json", "events"]


def test_a_new_folder_has_no_config_and_takes_any_recipe(tmp_path):
    folder = RunFolder(str(tmp_path / "new"))
    assert folder.config() is None
    folder.check_same_run(RECIPE, program="tpuloop")
    assert not (tmp_path / "new").exists()


def test_before_the_first_checkpoint_a_recipe_may_change(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.record(RECIPE, program="tpuloop", flags={})
    other = make_recipe({"steps": 5}).to_json()
    folder.check_same_run(other, program="tpuloop")
    folder.record(other, program="tpuloop", flags={})
    assert folder.config()["recipe"]["steps"] == 5


def test_afterwards_it_may_not(folder):
    other = make_recipe({"steps": 5, "seed": 1}).to_json()
    with pytest.raises(UsageError, match=r"another recipe \(seed was 0 and is 1; steps was 1000 and is 5\)"):
        folder.check_same_run(other, program="tpuloop")
    folder.record(other, program="tpuloop", flags={})
    assert folder.config()["recipe"] == RECIPE


def test_how_it_runs_may_change(folder):
    folder.check_same_run(make_recipe({"steps_per_loop": 5, "eager": True}).to_json(), program="tpuloop")


def test_a_recipe_of_an_older_version_lacks_a_field(folder):
    config = folder.config()
    del config["recipe"]["accumulate_steps"]
    with open(f"{folder.path}/config.json", "w") as file:
        json.dump(config, file)
    folder.check_same_run(RECIPE, program="tpuloop")


def test_a_run_belongs_to_its_program(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.record(RECIPE, program="here/train.py", flags={})
    save(folder, 10)
    folder.check_same_run(RECIPE, program="/elsewhere/train.py")
    with pytest.raises(UsageError, match="belongs to a run of here/train.py, not tpuloop: use another workdir"):
        folder.check_same_run(RECIPE, program="tpuloop")


def test_checkpoints_without_a_recipe_are_not_ours(tmp_path):
    folder = RunFolder(str(tmp_path))
    save(folder, 10)
    with pytest.raises(UsageError, match="has checkpoints and no config.json: use another workdir"):
        folder.check_same_run(RECIPE, program="tpuloop")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"recipe": 3}', '{"recipe": {}}', '{"recipe": {}, "program": 3}']
)
def test_a_damaged_config_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config.json is damaged \(\w+\): restore it, or use another workdir"):
        RunFolder(str(tmp_path)).config()


def test_finished(folder):
    assert folder.finished_step(10) == 10
    assert folder.finished_step(5) == 10
    assert folder.finished_step(11) is None


def test_a_run_that_ended_by_itself_is_finished_for_the_same_target_alone(tmp_path):
    folder = RunFolder(str(tmp_path))
    assert folder.finished_step(1) is None
    save(folder, 7, finished_target=[20, None])
    assert folder.finished_step(20) == 7
    assert folder.finished_step(21) is None


def test_a_damaged_last_checkpoint_does_not_make_a_finished_run(folder):
    with open(f"{folder.checkpoints}/step-00000010/data", "w") as file:
        file.write("other")
    assert folder.finished_step(10) is None
