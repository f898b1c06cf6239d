"""Saving and restoring the objects of a run, also when checkpoints are damaged or do not fit."""

import json
import logging
import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import CheckpointError, committed_steps
from tpuloop.checkpoint.store import CheckpointStore
from tpuloop.errors import UsageError


def store(directory, keep=3, **objects):
    return CheckpointStore(directory=str(directory), objects=objects, keep=keep)


def saved(directory, steps, keep=10):
    """A variable whose value is the step, saved at each of `steps`."""
    variable = tf.Variable(0.0)
    kept = store(directory, keep, variable=variable)
    for step in steps:
        variable.assign(step)
        kept.save(step, {"seed": 7, "note": "x"})
    return variable, kept


def state_files(directory, step):
    return [path.name for path in (directory / f"step-{step:08d}").glob("state.*")]


def damage(directory, step):
    """Flips one byte of a step's data."""
    folder = directory / f"step-{step:08d}"
    (data,) = folder.glob("state.data*")
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(bytes(content))


def test_the_newest_is_restored_with_its_record(tmp_path):
    variable, kept = saved(tmp_path, [5, 20, 10])
    variable.assign(-1)
    record = kept.restore()
    assert float(variable) == 20
    assert (record["step"], record["seed"], record["note"]) == (20, 7, "x")


def test_nothing_to_restore(tmp_path):
    variable, kept = saved(tmp_path / "missing", [])
    variable.assign(3)
    assert kept.restore() is None
    assert float(variable) == 3


def test_keep(tmp_path):
    saved(tmp_path, [5, 10, 15, 20], keep=2)
    assert committed_steps(str(tmp_path)) == [15, 20]


def test_files_of_others_stay(tmp_path):
    others = ["notes.txt", "step-5", "step-00000007-mine", "old"]
    for name in others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "COMMIT.json").write_text("{}")
    saved(tmp_path, [5, 10], keep=1)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "step-00000010"])


def test_files_of_others_in_an_old_step_stay(tmp_path):
    variable, kept = saved(tmp_path, [5])
    (tmp_path / "step-00000005" / "notes.txt").write_text("mine")
    kept.save(10, {})
    store(tmp_path, 1, variable=variable).save(15, {})
    assert committed_steps(str(tmp_path)) == [15]
    assert os.listdir(tmp_path / "step-00000005") == ["notes.txt"]


def test_a_replaced_one_that_was_lost_from_sight_is_put_back_by_a_restart_only(tmp_path):
    variable, kept = saved(tmp_path, [5, 10])
    os.rename(tmp_path / "step-00000010", tmp_path / ".replaced-step-00000010-1")  # As if it had died then.
    (tmp_path / ".writing-step-00000010-999999999").mkdir()
    assert kept.restore(to_train=False)["step"] == 5
    assert len(os.listdir(tmp_path)) == 3
    assert kept.restore()["step"] == 10
    assert sorted(os.listdir(tmp_path)) == ["step-00000005", "step-00000010"]


def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path, caplog):
    variable, kept = saved(tmp_path, [5, 10, 20])
    damage(tmp_path, 20)
    os.remove(tmp_path / "step-00000010" / "state.index")
    with caplog.at_level(logging.WARNING, "tpuloop"):
        assert kept.restore()["step"] == 5
    assert float(variable) == 5
    assert "passing over a damaged checkpoint" in caplog.text
    assert "step-00000020: state.data" in caplog.text
    assert "step-00000010: state.index cannot be read" in caplog.text


def test_an_uncommitted_one_is_not_seen(tmp_path, caplog):
    variable, kept = saved(tmp_path, [5, 10])
    os.remove(tmp_path / "step-00000010" / "COMMIT.json")
    assert kept.restore()["step"] == 5
    assert float(variable) == 5
    assert not caplog.records


def test_none_valid_is_an_error_and_no_start_from_nothing(tmp_path):
    variable, kept = saved(tmp_path, [5, 10])
    for step in (5, 10):
        damage(tmp_path, step)
    variable.assign(-1)
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in .* is valid; the run does not start over"):
        kept.restore()
    assert float(variable) == -1


def test_a_damaged_step_that_is_reached_again_is_written_again(tmp_path):
    variable, kept = saved(tmp_path, [5, 10])
    damage(tmp_path, 10)
    kept = store(tmp_path, variable=variable)  # As after a restart.
    variable.assign(100)
    kept.save(10, {})
    variable.assign(0)
    assert kept.restore()["step"] == 10
    assert float(variable) == 100


def test_a_step_that_is_saved_again_holds_what_it_was_saved_with_last(tmp_path):
    variable, kept = saved(tmp_path, [5, 10])
    for value, again in ((100, kept), (200, store(tmp_path, variable=variable))):
        variable.assign(value)
        again.save(10, {"note": f"new {value}"})
        variable.assign(0)
        assert (kept.restore()["note"], float(variable)) == (f"new {value}", value)


@pytest.mark.parametrize("there", ["file", "file above", "dangling link"])
def test_a_folder_that_cannot_be_written_is_found_out_beforehand(tmp_path, there):
    folder = tmp_path / "run" / "checkpoints"
    if there == "file above":
        (tmp_path / "run").touch()
    else:
        (tmp_path / "run").mkdir()
        folder.touch() if there == "file" else folder.symlink_to(tmp_path / "nowhere" / "at all")
    with pytest.raises(UsageError, match="cannot write checkpoints to .*: .*; give another workdir"):
        store(folder, variable=tf.Variable(1.0)).prepare()


def test_preparing_leaves_nothing_behind(tmp_path):
    store(tmp_path / "new", variable=tf.Variable(1.0)).prepare()
    assert list((tmp_path / "new").iterdir()) == []


def test_damaged_later_ones_do_not_push_out_what_is_saved_now(tmp_path):
    variable, kept = saved(tmp_path, [5, 20, 30], keep=3)
    damage(tmp_path, 20)
    damage(tmp_path, 30)
    one = store(tmp_path, 1, variable=variable)
    assert one.restore()["step"] == 5
    one.save(12, {})
    assert committed_steps(str(tmp_path)) == [12, 20, 30]
    assert one.restore()["step"] == 12


def test_a_write_that_fails_is_named_and_leaves_the_others(tmp_path):
    variable, kept = saved(tmp_path / "checkpoints", [5])
    (tmp_path / "file").write_text("")
    blocked = store(tmp_path / "file" / "checkpoints", variable=variable)
    with pytest.raises(CheckpointError, match=r"cannot save step 10 in .*file/checkpoints"):
        blocked.save(10, {})
    assert kept.restore()["step"] == 5


@pytest.mark.parametrize("name", ["state.index", "state.data-00000-of-00001"])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6])
def test_a_bit_that_the_file_system_loses_is_found_by_the_save(tmp_path, monkeypatch, name, place):
    values = tf.Variable(np.arange(1000, dtype=np.float32))
    kept = store(tmp_path, values=values, text=tf.Variable("abc"), half=tf.Variable(tf.ones([3], tf.bfloat16)))
    kept.save(5, {})
    write = tf.train.Checkpoint.write

    def lossy(self, prefix):
        write(self, prefix)
        path = os.path.join(os.path.dirname(prefix), name)
        with open(path, "r+b") as file:
            file.seek(int(place * os.path.getsize(path)))
            (byte,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))

    monkeypatch.setattr(tf.train.Checkpoint, "write", lossy)
    with pytest.raises(CheckpointError, match=r"state was read back and differs from what was written"):
        kept.save(10, {})
    assert os.listdir(tmp_path) == ["step-00000005"]
    values.assign(tf.zeros([1000]))
    assert kept.restore()["step"] == 5
    assert float(values[999]) == 999


def test_large_state_is_read_back_in_groups(tmp_path, monkeypatch):
    read, groups = tf.raw_ops.RestoreV2, []

    def watched(**arguments):
        groups.append([name.split("/")[1] for name in arguments["tensor_names"] if name.startswith("list")])
        return read(**arguments)

    monkeypatch.setattr(tf.raw_ops, "RestoreV2", watched)
    monkeypatch.setattr("tpuloop.checkpoint.tensors._BYTES_AT_ONCE", 1000)
    sizes = (100, 300, 20, 20, 20)
    store(tmp_path, list=[tf.Variable(tf.zeros([size])) for size in sizes]).save(5, {})
    assert groups == [["0"], ["1"], ["2", "3", "4"]]


def model(units=(4, 2), optimizer="adam"):
    layers = [tf.keras.layers.Dense(count, name=f"layer{i}") for i, count in enumerate(units)]
    made = tf.keras.Sequential([tf.keras.Input([3]), *layers])
    made.compile(optimizer, "mse")
    made.optimizer._create_all_weights(made.trainable_variables)
    return made


def values(made):
    return [value.numpy().copy() for value in made.variables + made.optimizer.variables()]


def misfit(directory, made):
    """What is said about the newest checkpoint, which does not fit `made`; no value of `made` may change."""
    before = values(made)
    with pytest.raises(CheckpointError, match=r"step-00000005 does not fit this model: ") as error:
        store(directory, model=made).restore()
    for value, earlier in zip(values(made), before):
        np.testing.assert_array_equal(value, earlier)
    message = str(error.value)
    assert "\n" not in message
    return message.split("does not fit this model: ")[1].split("; ")


def test_another_shape_is_named_and_nothing_is_overwritten(tmp_path):
    store(tmp_path, model=model()).save(5, {})
    layer, slots = "model/layer_with_weights-1", ".OPTIMIZER_SLOT/model/optimizer"
    assert misfit(tmp_path, model((4, 3))) == [
        f"{layer}/kernel has shape (4, 2) in the checkpoint and (4, 3) in the model",
        f"{layer}/bias has shape (2,) in the checkpoint and (3,) in the model",
        f"{layer}/kernel/{slots}/m has shape (4, 2) in the checkpoint and (4, 3) in the model",
        f"{layer}/bias/{slots}/m has shape (2,) in the checkpoint and (3,) in the model",
        f"{layer}/kernel/{slots}/v has shape (4, 2) in the checkpoint and (4, 3) in the model",
        "and 1 more",
    ]


def test_what_only_the_model_has_is_named_and_nothing_is_overwritten(tmp_path):
    store(tmp_path, model=model(optimizer="sgd")).save(5, {})
    assert misfit(tmp_path, model((4, 2, 2), optimizer="sgd")) == [
        "model/layer_with_weights-2/kernel is not in the checkpoint",
        "model/layer_with_weights-2/bias is not in the checkpoint",
    ]


def test_the_state_of_another_optimizer_is_named_and_nothing_is_overwritten(tmp_path):
    store(tmp_path, model=model(optimizer="sgd")).save(5, {})
    found = misfit(tmp_path, model((4, 2)))
    assert "model/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/model/optimizer/m is not in the checkpoint" in found


def test_another_precision_is_named_and_nothing_is_overwritten(tmp_path):
    store(tmp_path, pair=[tf.Variable(1.0), tf.Variable(2.0)]).save(5, {})
    pair = [tf.Variable(0.0), tf.Variable(0.0, dtype=tf.float64)]
    with pytest.raises(CheckpointError, match=r"model: pair/1 is float32 in the checkpoint and float64 in the model$"):
        store(tmp_path, pair=pair).restore()
    assert [float(value) for value in pair] == [0, 0]


def test_state_of_several_replicas_and_of_half_precision_fits(tmp_path, runtimes):
    def made(replicas):
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
        with runtimes(replicas).scope():
            return model()

    first = made(2)
    store(tmp_path, model=first).save(5, {})
    second = made(4)
    store(tmp_path, model=second).restore()
    for value, expected in zip(second.get_weights(), first.get_weights()):
        np.testing.assert_array_equal(value, expected)


def test_what_only_the_checkpoint_has_is_named(tmp_path, caplog):
    store(tmp_path, model=model((4, 2, 2))).save(5, {})
    with caplog.at_level(logging.WARNING, "tpuloop"):
        smaller = store(tmp_path, model=model((4, 2)))
        smaller.restore()
        assert not caplog.records
        smaller.name_unused()
        smaller.name_unused()
    assert len(caplog.records) == 1
    assert "step-00000005 holds values that nothing takes: " in caplog.text
    assert "model/layer_with_weights-2/kernel" in caplog.text
    assert "layer_with_weights-0" not in caplog.text


def test_an_evaluation_needs_no_optimizer_state(tmp_path, caplog):
    trained = model()
    store(tmp_path, model=trained).save(5, {})
    plain = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(4), tf.keras.layers.Dense(2)])
    with caplog.at_level(logging.WARNING, "tpuloop"):
        evaluated = store(tmp_path, model=plain)
        evaluated.restore(to_train=False)
        evaluated.name_unused()
    np.testing.assert_array_equal(plain.get_weights()[0], trained.get_weights()[0])
    assert not caplog.records


def test_records_are_plain_json(tmp_path):
    saved(tmp_path, [5])
    record = json.loads((tmp_path / "step-00000005" / "COMMIT.json").read_text())
    assert set(record) == {"step", "files", "variables", "seed", "note"}
    assert record["variables"] == {"variable/.ATTRIBUTES/VARIABLE_VALUE": "Variable"}
    assert not any(name.endswith(".pkl") for name in os.listdir(tmp_path / "step-00000005"))
