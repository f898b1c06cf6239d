"""Which weights of a run another model starts from, and what is refused."""

import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import CheckpointError
from tpuloop.checkpoint.run_weights import find_run_weights
from tpuloop.checkpoint.store import CheckpointStore


@pytest.fixture
def workdir(tmp_path):
    """`workdir(step, **more)`: a run with a model of two weights; `more` are attributes of its loop."""

    def save(step, **more):
        loop = tf.Module()
        loop.model = tf.Module()
        loop.model.parts = [tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")]
        for name, value in more.items():
            setattr(loop, name, value)
        CheckpointStore(directory=str(tmp_path / "checkpoints"), objects={"loop": loop}).save(step, {})
        return str(tmp_path)

    return save


def averages():
    module = tf.Module()
    module.values = [tf.Variable(number, name=f"average/{name}") for name, number in (("a", 1.5), ("b", 2.5))]
    return module


def values_of(found):
    reader = tf.train.load_checkpoint(found.prefix)
    return {name: float(reader.get_tensor(key)) for key, name in found.names.items()}


def test_the_weights_of_a_model_and_nothing_else_of_the_same_names(workdir):
    path = workdir(4, other=[tf.Variable(9.0, name="a"), tf.Variable(9.0, name="average/a")])
    for place in (path, f"{path}/", f"{path}/checkpoints", f"{path}/checkpoints/step-00000004"):
        found = find_run_weights(place)
        assert (found.step, found.title, found.averaged) == (4, "step 4 of a run", False)
        assert values_of(found) == {"a": 1.0, "b": 2.0}


def test_moving_averages_are_taken_in_place_of_the_weights_once_there_was_a_step(workdir):
    found = find_run_weights(workdir(500, weight_averages=averages()))
    assert found.title == "moving averages of step 500 of a run"
    assert values_of(found) == {"a": 1.5, "b": 2.5}


def test_before_the_first_step_the_averages_are_of_nothing(workdir):
    found = find_run_weights(workdir(0, weight_averages=averages()))
    assert found.title == "step 0 of a run" and values_of(found) == {"a": 1.0, "b": 2.0}


def test_a_folder_that_is_no_run_is_none_of_ours_and_one_without_a_checkpoint_is_refused(tmp_path):
    assert find_run_weights(str(tmp_path)) is find_run_weights(str(tmp_path / "gone.h5")) is None
    (tmp_path / "run/checkpoints/step-00000003").mkdir(parents=True)
    for place in ("run", "run/checkpoints/step-00000003"):
        with pytest.raises(CheckpointError, match=f"{place} holds no checkpoint yet: train there first"):
            find_run_weights(str(tmp_path / place))
