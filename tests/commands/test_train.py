"""`tpuloop train`: the main job as a real process, and what its flags change."""

import glob
import os
import re

import numpy as np
import pytest

PLAIN_LINE = re.compile(
    r"tpuloop \S+, TensorFlow 2\.9\.\d, Python 3\.\d+\.\d+$|(devices|model|data|workdir|steps): |step \d+"
)


@pytest.mark.slow
def test_the_main_job_reaches_its_accuracy(digits_run):
    _, result = digits_run
    assert result.status == 0, result.err
    (line,) = result.out.splitlines()
    accuracy = re.fullmatch(r"held-out accuracy (\d\.\d{4}), loss \d\.\d{4} at step 1500", line).group(1)
    assert float(accuracy) >= 0.96


def test_it_says_six_lines_at_its_start_and_then_only_how_far_it_is(digits_run):
    workdir, result = digits_run
    lines = result.err.splitlines()
    assert [line for line in lines if not PLAIN_LINE.match(line)] == []
    start = lines[: next(i for i, line in enumerate(lines) if line.startswith("step "))]
    assert [line.split()[0] for line in start] == ["tpuloop", "devices:", "model:", "data:", "workdir:", "steps:"]
    assert start[2] == "model: mlp, 17,226 parameters"
    assert start[4] == f"workdir: {workdir}, a new run"
    assert result.err.isprintable() or set(filter(lambda c: not c.isprintable(), result.err)) == {"\n"}


def test_the_curves_have_every_step(digits_run, curve):
    workdir, _ = digits_run
    assert [step for step, _ in curve(workdir)] == list(range(1, 1501))
    assert [step for step, _ in curve(workdir, "accuracy", "eval")] == [250, 500, 750, 1000, 1250, 1500]


def test_a_finished_run_says_so_and_does_nothing(digits_run, quick_tpuloop):
    workdir, _ = digits_run

    def files():
        return sorted((path, os.stat(path).st_mtime_ns) for path in glob.glob(f"{workdir}/**", recursive=True))

    before = files()
    result = quick_tpuloop("train", "--config=mlp_digits", f"--workdir={workdir}")
    assert (result.status, result.out) == (0, "")
    assert result.err.splitlines()[1:] == [f"{workdir} is finished: step 1500 of 1500 is done, nothing to do"]
    assert files() == before


# These recipes are the main job's first steps, so its curve is what they are compared with.


@pytest.mark.slow
def test_eight_replicas_give_the_losses_of_one(digits_run, quick_tpuloop, curve, tmp_path):
    workdir, _ = digits_run
    result = quick_tpuloop("train", "--config=mlp_digits", "--steps=200", "--replicas=8", f"--workdir={tmp_path}")
    assert result.status == 0, result.err
    assert "devices: 8 replicas on logical CPU devices" in result.err
    assert "global batch 64 (8 a replica)" in result.err
    assert [line for line in result.err.splitlines() if not PLAIN_LINE.match(line)] == []
    np.testing.assert_allclose(curve(tmp_path), curve(workdir)[:200], atol=1e-4)


def test_the_host_loop_gives_the_losses_of_the_compiled_one(digits_run, quick_tpuloop, curve, tmp_path):
    workdir, _ = digits_run
    result = quick_tpuloop("train", "--config=mlp_digits", "--steps=20", "--eager", f"--workdir={tmp_path}")
    assert result.status == 0, result.err
    np.testing.assert_allclose(curve(tmp_path), curve(workdir)[:20], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision, tolerance", [("bfloat16", 0.05), ("float16", 0.01)])
def test_mixed_precision_learns_nearly_the_same(digits_run, quick_tpuloop, curve, tmp_path, precision, tolerance):
    workdir, _ = digits_run
    flags = ("--steps=100", f"--mixed_precision={precision}", f"--workdir={tmp_path}")
    result = quick_tpuloop("train", "--config=mlp_digits", *flags)
    assert result.status == 0, result.err
    np.testing.assert_allclose(curve(tmp_path), curve(workdir)[:100], atol=tolerance)
    assert float(result.out.split()[2].rstrip(",")) > 0.9


MODELS = """
import tensorflow as tf

def tiny(*, input_shape, num_classes, width=8):
    layers = [tf.keras.layers.Flatten(input_shape=input_shape), tf.keras.layers.Dense(width, "relu")]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(num_classes)], name="tiny")

def compiled():
    model = tiny(input_shape=(8, 8, 1), num_classes=10)
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""


@pytest.fixture
def place_with_models(tmp_path):
    """A working directory with a package of the user's that has the name of one of ours."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text(MODELS)
    return tmp_path


@pytest.mark.slow
def test_a_model_of_ones_own_in_a_package_called_models(tpuloop, quick_tpuloop, place_with_models):
    flags = ("--model=models:tiny", "--config.model.width=4", "--steps=2", "--eager", "--workdir=run")
    result = tpuloop("train", *flags, cwd=place_with_models)
    assert result.status == 0, result.err
    # 64 x 4 + 4, then 4 x 10 + 10.
    assert "model: tiny, 310 parameters" in result.err
    for command in ("evaluate", "predict", "export"):
        used = quick_tpuloop(command, "--workdir=run", cwd=place_with_models)
        assert used.status == 0, used.err
    ours = quick_tpuloop("train", "--model=mlp", "--steps=1", "--eager", "--workdir=ours", cwd=place_with_models)
    assert "model: mlp, 8,970 parameters" in ours.err


def test_a_model_that_comes_compiled_keeps_its_optimizer_and_loss(quick_tpuloop, place_with_models, weights):
    flags = ("--model=models:compiled", "--steps=2", "--eager", "--workdir=run")
    result = quick_tpuloop("train", *flags, cwd=place_with_models)
    assert result.status == 0, result.err
    assert re.match(r"held-out loss \d\.\d+ at step 2\n", result.out)  # It has no metric.
    assert not [name for name in weights(place_with_models / "run") if "/.OPTIMIZER_SLOT/" in name]


def test_a_model_with_a_step_of_its_own_takes_what_it_will(quick_tpuloop, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import tensorflow as tf\n"
        "class FromNoise(tf.keras.Model):\n"
        "    def train_step(self, batch):\n"
        "        return {'loss': tf.reduce_mean(self(tf.zeros([len(batch[0]), 3])))}\n"
        "    test_step = train_step\n"
        "def net():\n"
        "    inputs = tf.keras.Input([3])\n"
        "    return FromNoise(inputs, tf.keras.layers.Dense(1)(inputs), name='net')\n"
    )
    flags = ("--config.model.name=mine:net", "--steps=1", "--eager", "--workdir=run")
    result = quick_tpuloop("train", *flags, cwd=tmp_path)
    assert result.status == 0, result.err
    assert result.out == "held-out loss 0.0000 at step 1\n"


def test_data_of_ones_own_without_anything_held_out(quick_tpuloop, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def data(*, size):\n"
        "    return (np.zeros([size, 8, 8, 1], 'float32'), np.zeros(size, 'int64')), None\n"
    )
    flags = ("--data=mine:data", "--config.data.size=10", "--config.model.input_shape=(8,8,1)", "--workdir=run")
    flags = (*flags, "--config.model.num_classes=2", "--global_batch=5", "--steps=3", "--eager")
    result = quick_tpuloop("train", *flags, cwd=tmp_path)
    assert result.status == 0, result.err
    assert result.out.startswith("training accuracy ") and result.out.endswith(" at step 3\n")
    evaluated = quick_tpuloop("evaluate", "--workdir=run", cwd=tmp_path)
    assert evaluated.status == 2
    assert "the data 'mine:data' has nothing held out to evaluate on" in evaluated.err
