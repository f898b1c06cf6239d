"""`--init_from`: what a new run starts from, what a continued one does not need, and what is refused."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.mlp import mlp

import tpuloop as package
from tpuloop.commands import init_from

# A step of this size changes no float32, so that a run ends with the weights that it started from.
STANDING_STILL = ("train", "--steps=1", "--eager", "--optimizer=sgd", "--learning_rate=1e-30")


def digits_model(num_classes=10):
    return mlp(input_shape=(8, 8, 1), num_classes=num_classes)


def by_name(model):
    return {variable.name[:-2]: variable.numpy() for variable in model.variables}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A Keras file of weights, and the weights."""
    path = tmp_path_factory.mktemp("published") / "weights.h5"
    model = digits_model()
    random = np.random.RandomState(0)
    model.set_weights([random.normal(size=value.shape) for value in model.get_weights()])
    model.save_weights(str(path))
    return path, by_name(model)


def assert_weights(workdir, expected):
    model = digits_model()
    package.init_from(model, str(workdir))
    for name, value in by_name(model).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_new_run_starts_from_published_weights_and_says_so(published, quick_tpuloop, weights, tmp_path, replicas):
    path, values = published
    workdir = tmp_path / "run"
    result = quick_tpuloop(*STANDING_STILL, f"--init_from={path}", f"--replicas={replicas}", f"--workdir={workdir}")
    assert result.status == 0, result.err
    line = f"init_from: 6 of 6 variables from {path} (the model's own names)"
    lines = result.err.splitlines()
    assert line in lines and lines.index(line) < lines.index(f"workdir: {workdir}, a new run")
    saved = weights(workdir)
    for layer, name in enumerate(("hidden_0", "hidden_1", "logits")):
        for part in ("kernel", "bias"):
            key = f"loop/model/layer_with_weights-{layer}/{part}/.ATTRIBUTES/VARIABLE_VALUE"
            np.testing.assert_array_equal(saved[key], values[f"{name}/{part}"])
    assert json.loads((workdir / "config.json").read_text())["recipe"]["init_from"] == str(path)
    # The run can be what another one starts from, also where TensorFlow has left the names out of its checkpoint.
    assert_weights(workdir, values)


def test_a_run_that_continues_needs_no_file_and_goes_on_from_its_own_weights(
    published, quick_tpuloop, weights, tmp_path
):
    file, workdir = tmp_path / "weights.h5", tmp_path / "run"
    shutil.copy(published[0], file)
    command = ("train", "--steps=3", "--save_every=1", "--eager", f"--init_from={file}", f"--workdir={workdir}")
    result = quick_tpuloop(*command)
    assert result.status == 0, result.err
    ended = weights(workdir)
    file.unlink()
    finished = quick_tpuloop(*command)
    assert finished.status == 0 and "is finished: step 3 of 3 is done" in finished.err
    shutil.rmtree(workdir / "checkpoints/step-00000003")
    continued = quick_tpuloop(*command)
    assert continued.status == 0 and "continues after step 2" in continued.err, continued.err
    assert "init_from" not in continued.err
    again = weights(workdir)
    for name, value in ended.items():
        np.testing.assert_array_equal(again[name], value)


def test_another_run_by_its_workdir_its_checkpoints_and_one_of_them(small_run):
    reports = []
    for path in (small_run, small_run / "checkpoints", small_run / "checkpoints/step-00000003"):
        model = digits_model(num_classes=3)
        reports.append(package.init_from(model, f"{path}/").summary("P"))
        assert by_name(model)["hidden_0/bias"].any()
    assert set(reports) == {
        "4 of 6 variables from P (step 3 of a run); new: logits/bias, logits/kernel (the file's logits are for 10 "
        "classes); not used: logits/bias, logits/kernel"
    }


def test_a_run_that_is_evaluated_with_moving_averages_is_taken_as_them(quick_tpuloop, tmp_path):
    workdir = tmp_path / "run"
    result = quick_tpuloop(
        "train", "--steps=3", "--eager", "--replicas=2", "--config.ema_decay=0.5", f"--workdir={workdir}"
    )
    assert result.status == 0, result.err
    model = digits_model()
    report = package.init_from(model, str(workdir))
    assert report.summary("P") == "6 of 6 variables from P (moving averages of step 3 of a run)"
    kept = tf.train.load_checkpoint(str(workdir / "checkpoints/step-00000003/state"))
    for number, variable in enumerate(model.variables):
        average = kept.get_tensor(f"loop/weight_averages/values/{number}/.ATTRIBUTES/VARIABLE_VALUE")
        np.testing.assert_array_equal(variable, average)
        weight = f"loop/model/layer_with_weights-{number // 2}/{('kernel', 'bias')[number % 2]}"
        assert (kept.get_tensor(f"{weight}/.ATTRIBUTES/VARIABLE_VALUE") != average).any()


def test_a_network_that_is_not_all_there_is_a_warning_in_the_log_with_every_name(quick_tpuloop, tmp_path):
    shallow = mlp(input_shape=(8, 8, 1), num_classes=10, hidden=(64, 64))
    shallow.save_weights(str(tmp_path / "shallow.h5"))
    for hidden, line in (
        ("(64,64,64)", "shallow.h5 has no hidden_2/bias, hidden_2/kernel: they start from initial values"),
        ("(64,)", "the model has no place for hidden_1/bias, hidden_1/kernel of shallow.h5: they are not used"),
    ):
        command = (*STANDING_STILL, "--init_from=shallow.h5", f"--config.model.hidden={hidden}", f"--workdir={hidden}")
        result = quick_tpuloop(*command, cwd=tmp_path)
        assert result.status == 0, result.err
        assert [given for given in result.err.splitlines() if given.endswith(f"init_from: {line}")], result.err


def test_a_run_whose_commit_file_is_older_than_the_names_in_it_tells_them_otherwise(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "older")
    (commit,) = (tmp_path / "older").glob("checkpoints/step-*/COMMIT.json")
    record = json.loads(commit.read_text())
    del record["variables"]
    commit.write_text(json.dumps(record))
    expected = digits_model()
    package.init_from(expected, str(small_run))
    assert_weights(tmp_path / "older", by_name(expected))


def test_a_run_before_its_first_checkpoint_or_with_a_damaged_one_is_refused(small_run, tmp_path):
    (tmp_path / "new/checkpoints").mkdir(parents=True)
    with pytest.raises(package.UsageError, match="new holds no checkpoint yet: train there first"):
        package.init_from(digits_model(), str(tmp_path / "new"))
    shutil.copytree(small_run, tmp_path / "damaged")
    (data,) = (tmp_path / "damaged").glob("checkpoints/step-*/state.data*")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(package.UsageError, match="^init_from: .*damaged/.*state.data.*; name another step's folder$"):
        package.init_from(digits_model(), str(tmp_path / "damaged"))


@pytest.fixture
def wrong(tmp_path):
    """A folder of what cannot be used."""
    (tmp_path / "empty").mkdir()
    for name in ("cut.safetensors", "cut.index", "notes.txt", "weights.pth"):
        (tmp_path / name).write_text("hello")
    return tmp_path


@pytest.mark.parametrize(
    "path, message",
    [
        (
            "gone",
            "init_from: there is no gone: give a .safetensors file, a Keras .h5 file, a TensorFlow checkpoint, or",
        ),
        ("empty", "init_from: empty is a folder without weights: give a"),
        ("notes.txt", "init_from: notes.txt is no file of weights that is known here: give a"),
        ("weights.pth", "init_from: weights.pth is a pickled file of PyTorch: save it as safetensors first"),
        ("cut.safetensors", "init_from: cut.safetensors cannot be read as safetensors: "),
        ("cut", "init_from: cut cannot be read as a TensorFlow checkpoint: "),
        ("gs://bucket/a.h5", "init_from: gs://bucket/a.h5 can only be read from a local disk: copy it here first"),
        ("gs:/bucket/a", "gs:/bucket/a is no path of an object store"),
    ],
)
def test_what_cannot_be_used_is_one_line(quick_tpuloop, wrong, path, message):
    result = quick_tpuloop(*STANDING_STILL, f"--init_from={path}", "--workdir=run", cwd=wrong)
    assert result.status == 2
    assert [line for line in result.err.splitlines() if line.startswith(f"tpuloop train: error: {message}")]
    assert "Traceback" not in result.err and not (wrong / "run").exists()


def test_a_folder_that_may_not_be_read_is_one_line(wrong, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.listdir", refuse)  # root may read any.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(package.UsageError, match="init_from: .*empty cannot be read: Permission denied"):
        init_from.check_path(str(wrong / "empty"))
    assert not init_from.looks_new(str(wrong))


def test_a_package_that_is_missing_is_said_with_what_installs_it(wrong, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    path = str(wrong / "cut.safetensors")
    message = f"init_from {path}: the package safetensors is not installed"
    for call in (init_from.check_path, lambda path: init_from.start_from(digits_model(), path)):
        with pytest.raises(package.UsageError) as raised:
            call(path)
        assert str(raised.value) == f"{message}: pip install 'tpuloop[weights]'"
    with pytest.raises(package.UsageError) as raised:
        package.init_from(digits_model(), path)
    assert str(raised.value) == message


def test_a_model_of_another_variant_is_refused_with_the_flag_that_builds_it(tmp_path):
    import h5py

    with h5py.File(tmp_path / "resnet50.h5", "w") as file:
        file.attrs["layer_names"] = [b"conv2_block1_1_conv"]
        group = file.create_group("conv2_block1_1_conv")
        group.attrs["weight_names"] = [b"conv2_block1_1_conv/kernel:0"]
        group["conv2_block1_1_conv/kernel:0"] = np.zeros([1, 1, 1, 1])
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(1, 1, name="stage2_block1_conv1")])
    model.build([None, 2, 2, 1])
    path = str(tmp_path / "resnet50.h5")
    message = (
        f"init_from {path}: its blocks have the stride in their first convolution, and the model's in the 3x3: build "
        "the model with stride_in='1x1'"
    )
    for call, flag in ((package.init_from, ""), (init_from.start_from, " (--config.model.stride_in=1x1)")):
        with pytest.raises(package.UsageError) as raised:
            call(model, path)
        assert str(raised.value) == f"{message}{flag}"


def test_a_path_without_anything_is_refused_before_tensorflow_is_loaded(wrong):
    program = (
        "import sys\n"
        "from tpuloop.__main__ import main\n"
        "status = main(['train', '--workdir=run', '--init_from=gone'])\n"
        "sys.exit(f'TensorFlow was loaded' if 'tensorflow' in sys.modules else status)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=wrong, capture_output=True, encoding="utf-8")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("tpuloop train: error: init_from: there is no gone") and done.stderr.count("\n") == 1


def test_weights_of_another_size_are_refused_before_a_step(published, quick_tpuloop, tmp_path):
    path, _ = published
    result = quick_tpuloop(
        *STANDING_STILL, f"--init_from={path}", "--config.model.hidden=(64,32)", f"--workdir={tmp_path / 'run'}"
    )
    assert result.status == 2
    assert result.err.splitlines()[-1] == (
        f"tpuloop train: error: init_from {path}: hidden_1/bias has shape (64,) in the file and (32,) in the model "
        "(and so for 2 more): build the model with the sizes of the file, or use a file of this model"
    )
    assert not os.path.exists(tmp_path / "run/config.json")
