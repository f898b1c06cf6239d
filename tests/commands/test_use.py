"""`tpuloop evaluate`, `predict` and `export` on the run of the main job."""

import json
import subprocess
import sys

import numpy as np
import pytest

# A process that cannot import tpuloop, though the tests' environment has it.
SERVE = """
import sys
sys.modules["tpuloop"] = None
import numpy as np
import tensorflow as tf
folder, examples, outputs = sys.argv[1:]
x = np.load(examples)["x"]
model = tf.saved_model.load(folder)
signature = model.signatures["serving_default"](inputs=tf.constant(x))
keras_model = tf.keras.models.load_model(folder, compile=False)
np.savez(outputs, called=model(x), served=signature["logits"], keras=keras_model(x))
"""


@pytest.fixture(scope="module")
def predictions(digits_run, quick_tpuloop):
    """What `tpuloop predict` writes by default."""
    workdir, _ = digits_run
    result = quick_tpuloop("predict", f"--workdir={workdir}")
    assert result.status == 0, result.err
    path = workdir / "predictions.npz"
    assert result.out == f"wrote 360 predictions at step 1500 to {path}\n"
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A file with the first five held-out examples."""
    from tpuloop.data.sets.digits import digits

    path = tmp_path_factory.mktemp("examples") / "x.npz"
    np.savez(path, x=digits().evaluation.arrays[0][:5])
    return path


def test_evaluate_gives_what_training_said_at_any_replica_count_and_batch(digits_run, quick_tpuloop):
    workdir, trained = digits_run
    result = quick_tpuloop("evaluate", f"--workdir={workdir}")
    assert (result.status, result.out) == (0, trained.out)
    result = quick_tpuloop("evaluate", f"--workdir={workdir}", "--replicas=3", "--global_batch=7", "--json")
    values = json.loads(result.out)
    assert sorted(values) == ["accuracy", "loss", "step"]
    assert trained.out == f"held-out accuracy {values['accuracy']:.4f}, loss {values['loss']:.4f} at step 1500\n"


def test_predictions_have_the_labels_beside_them(digits_run, predictions):
    _, trained = digits_run
    assert predictions["predictions"].shape == (360, 10) and predictions["predictions"].dtype == np.float32
    accuracy = np.mean(np.argmax(predictions["predictions"], 1) == predictions["labels"])
    assert f"accuracy {accuracy:.4f}," in trained.out


def test_predictions_as_text_are_the_same_numbers(digits_run, quick_tpuloop, predictions, tmp_path):
    workdir, _ = digits_run
    result = quick_tpuloop(
        "predict", f"--workdir={workdir}", "--output=outputs.csv", "--global_batch=100", cwd=tmp_path
    )
    assert result.status == 0, result.err
    header, *_ = (tmp_path / "outputs.csv").read_text().splitlines()
    assert header == ",".join([*(f"predictions_{column}" for column in range(10)), "labels"])
    table = np.loadtxt(tmp_path / "outputs.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, :10], predictions["predictions"], atol=1e-5)
    np.testing.assert_array_equal(table[:, 10], predictions["labels"])


def test_examples_of_ones_own(digits_run, quick_tpuloop, predictions, examples, tmp_path):
    workdir, _ = digits_run
    result = quick_tpuloop("predict", f"--workdir={workdir}", f"--input={examples}", f"--output={tmp_path / 'o.npz'}")
    assert result.status == 0, result.err
    with np.load(tmp_path / "o.npz") as arrays:
        assert sorted(arrays) == ["predictions"]
        np.testing.assert_allclose(arrays["predictions"], predictions["predictions"][:5], atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["o.npz"]


@pytest.mark.slow
def test_an_exported_model_gives_the_predictions_without_tpuloop(
    digits_run, quick_tpuloop, predictions, examples, tmp_path
):
    workdir, _ = digits_run
    result = quick_tpuloop("export", f"--workdir={workdir}", f"--output={tmp_path / 'saved model'}")
    assert (result.status, result.out) == (0, f"exported step 1500 to {tmp_path / 'saved model'}\n"), result.err
    arguments = [str(tmp_path / "saved model"), str(examples), str(tmp_path / "served.npz")]
    served = subprocess.run([sys.executable, "-c", SERVE, *arguments], stderr=subprocess.PIPE, timeout=120)
    assert served.returncode == 0, served.stderr
    with np.load(tmp_path / "served.npz") as outputs:
        for way in ("called", "served", "keras"):
            np.testing.assert_allclose(outputs[way], predictions["predictions"][:5], atol=1e-6, err_msg=way)
    again = quick_tpuloop("export", f"--workdir={workdir}", f"--output={tmp_path / 'saved model'}")
    assert again.status == 2 and "exists: give the name of a new folder" in again.err


def test_a_model_without_an_input_shape_is_exported_with_that_of_the_data(quick_tpuloop, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import tensorflow as tf\n"
        "def net():\n"
        "    return tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)], name='net')\n"
    )
    trained = quick_tpuloop("train", "--model=mine:net", "--steps=1", "--eager", "--workdir=run", cwd=tmp_path)
    assert "model: net, not built yet" in trained.err
    for command in ("predict", "export"):
        result = quick_tpuloop(command, "--workdir=run", cwd=tmp_path)
        assert result.status == 0, result.err
    import tensorflow as tf

    from tpuloop.data.sets.digits import digits

    x = digits().evaluation.arrays[0]
    saved = tf.saved_model.load(str(tmp_path / "run" / "export"))
    with np.load(tmp_path / "run" / "predictions.npz") as arrays:
        np.testing.assert_allclose(saved(x), arrays["predictions"], atol=1e-6)


def test_a_run_with_averages_is_evaluated_predicted_and_exported_with_them(quick_tpuloop, tmp_path):
    import tensorflow as tf

    workdir = tmp_path / "run"
    flags = ("--steps=30", "--learning_rate=0.02", "--config.ema_decay=0.95")
    trained = quick_tpuloop("train", *flags, f"--workdir={workdir}")
    assert trained.status == 0, trained.err
    assert quick_tpuloop("evaluate", f"--workdir={workdir}").out == trained.out
    assert quick_tpuloop("predict", f"--workdir={workdir}").status == 0
    with np.load(workdir / "predictions.npz") as arrays:
        accuracy = np.mean(np.argmax(arrays["predictions"], 1) == arrays["labels"])
    assert f"accuracy {accuracy:.4f}," in trained.out
    assert quick_tpuloop("export", f"--workdir={workdir}").status == 0
    exported = [weight.numpy() for weight in tf.saved_model.load(str(workdir / "export")).variables]
    (prefix,) = (path.with_suffix("") for path in workdir.glob("checkpoints/step-*/**/*.index"))
    checkpoint = tf.train.load_checkpoint(str(prefix))
    for index, weight in enumerate(exported):
        average = checkpoint.get_tensor(f"loop/weight_averages/values/{index}/.ATTRIBUTES/VARIABLE_VALUE")
        np.testing.assert_array_equal(weight, average)
    kernel = checkpoint.get_tensor("loop/model/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert not np.array_equal(kernel, exported[0])
