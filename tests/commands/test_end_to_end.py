"""The commands as real processes: train, resume, stop by a signal, evaluate, predict, export."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "research_script.py")

pytestmark = pytest.mark.slow


def tpuloop(*arguments, cwd=None, program=("-m", "tpuloop"), timeout=240):
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def curve(workdir, name="loss", part="train"):
    """All points of a curve, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(os.path.join(str(workdir), "events", part), size_guidance={"scalars": 0})
    events.Reload()
    return [(point.step, point.value) for point in events.Scalars(name)]


def weights(workdir):
    """Every variable of the newest checkpoint, read with bare TensorFlow."""
    import tensorflow as tf

    folder = sorted(glob.glob(os.path.join(str(workdir), "checkpoints", "step-*")))[-1]
    reader = tf.train.load_checkpoint(os.path.join(folder, "state"))
    names = [name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("a run") / "mlp digits"
    result = tpuloop("train", "--config=mlp_digits", f"--workdir={workdir}", cwd=tmp_path_factory.mktemp("elsewhere"))
    assert result.returncode == 0, result.stderr
    return workdir, result


def test_the_main_job_reaches_its_accuracy(trained):
    _, result = trained
    line = result.stdout.splitlines()[-1]
    assert line.startswith("held-out accuracy ") and line.endswith("at step 1500")
    assert float(line.split()[2].rstrip(",")) >= 0.96


def test_the_start_is_quiet_and_at_most_six_lines(trained):
    _, result = trained
    lines = result.stderr.splitlines()
    start = lines[: next(i for i, line in enumerate(lines) if line.startswith("step "))]
    assert len(start) <= 6 and start[0].startswith("tpuloop ") and "TensorFlow 2.9" in start[0]
    assert not [line for line in lines if "tensorflow/" in line or "WARNING" in line or "AutoGraph" in line]
    assert not set(result.stderr) & {"\r", "\x1b", "\b"}


def test_the_curves_have_every_step(trained):
    workdir, _ = trained
    assert [step for step, _ in curve(workdir)] == list(range(1, 1501))
    assert [step for step, _ in curve(workdir, "accuracy", "eval")] == [250, 500, 750, 1000, 1250, 1500]


def test_a_finished_run_does_nothing(trained):
    workdir, _ = trained
    before = sorted((path, os.stat(path).st_mtime_ns) for path in glob.glob(f"{workdir}/**", recursive=True))
    result = tpuloop("train", "--config=mlp_digits", f"--workdir={workdir}")
    assert result.returncode == 0 and "finished" in result.stderr
    assert sorted((path, os.stat(path).st_mtime_ns) for path in glob.glob(f"{workdir}/**", recursive=True)) == before


def test_another_recipe_is_refused_with_the_difference(trained):
    workdir, _ = trained
    result = tpuloop("train", "--config=mlp_digits", "--learning_rate=0.5", f"--workdir={workdir}")
    assert result.returncode == 2
    assert "optimizer.learning_rate was 0.001 and is 0.5" in result.stderr.splitlines()[-1]


def test_eight_replicas_give_the_losses_of_one(trained, tmp_path):
    workdir, _ = trained
    result = tpuloop("train", "--config=mlp_digits", "--replicas=8", f"--workdir={tmp_path}")
    assert result.returncode == 0, result.stderr
    one, eight = np.array(curve(workdir)), np.array(curve(tmp_path))
    np.testing.assert_allclose(eight, one, atol=1e-4)


def test_evaluate_predict_and_export_agree(trained, tmp_path):
    workdir, trained_result = trained
    evaluated = tpuloop("evaluate", f"--workdir={workdir}", "--replicas=3", "--json")
    values = json.loads(evaluated.stdout)
    assert f"accuracy {values['accuracy']:.4f}, loss {values['loss']:.4f}" in trained_result.stdout

    npz, csv, saved = tmp_path / "outputs.npz", tmp_path / "outputs.csv", tmp_path / "saved"
    assert tpuloop("predict", f"--workdir={workdir}", f"--output={npz}").returncode == 0
    outputs = np.load(npz)
    assert outputs["predictions"].shape == (360, 10)
    assert np.mean(np.argmax(outputs["predictions"], 1) == outputs["labels"]) == pytest.approx(values["accuracy"])

    assert tpuloop("export", f"--workdir={workdir}", f"--output={saved}").returncode == 0
    from tpuloop.data.sample import digits

    x = digits().evaluation.arrays[0]
    np.savez(tmp_path / "x.npz", x=x[:5])
    # A process that cannot import tpuloop, in whose path it would lie as an editable install.
    program = (
        "import sys; sys.modules['tpuloop'] = None\n"
        "import numpy as np, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "np.save(sys.argv[3], model(np.load(sys.argv[2])['x']).numpy())\n"
    )
    loaded = tpuloop(str(saved), str(tmp_path / "x.npz"), str(tmp_path / "served.npy"), program=("-c", program))
    assert loaded.returncode == 0, loaded.stderr
    np.testing.assert_allclose(np.load(tmp_path / "served.npy"), outputs["predictions"][:5], atol=1e-6)

    given = tpuloop("predict", f"--workdir={workdir}", f"--input={tmp_path / 'x.npz'}", f"--output={csv}")
    assert given.returncode == 0, given.stderr
    np.testing.assert_allclose(np.loadtxt(csv, delimiter=",", skiprows=1), outputs["predictions"][:5], atol=1e-5)


def stopped_and_continued(workdir, number, *arguments, program=("-m", "tpuloop", "train")):
    """Sends a signal once the first curve is being written, then runs the same command again."""
    command = [sys.executable, *program, *arguments, f"--workdir={workdir}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 120
            while not glob.glob(f"{workdir}/events/train/*") and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=120)
        finally:
            process.kill()
    again = subprocess.run(command, capture_output=True, text=True, timeout=240)
    return process.returncode, stderr, again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_command_goes_on_as_if_nothing_had_been(tmp_path, number):
    # Long calls: without the stop inside the loop, the run would simply end.
    recipe = ("--steps=8000", "--eval_every=8000", "--steps_per_loop=8000", "--seed=3")
    status, stderr, again = stopped_and_continued(tmp_path / "stopped", number, *recipe)
    assert status == 75, stderr
    assert signal.Signals(number).name in stderr.splitlines()[-1]
    assert again.returncode == 0, again.stderr
    assert "continues after step" in again.stderr
    unbroken = tpuloop("train", *recipe, f"--workdir={tmp_path / 'unbroken'}")
    assert unbroken.returncode == 0, unbroken.stderr
    assert curve(tmp_path / "stopped") == curve(tmp_path / "unbroken")
    one, other = weights(tmp_path / "stopped"), weights(tmp_path / "unbroken")
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_research_script_has_flags_folder_resume_and_statuses(tmp_path):
    helped = tpuloop("--help", program=(SCRIPT,))
    assert helped.returncode == 0
    for flag in ("--smoothing", "--workdir", "--learning_rate", "--replicas", "--config"):
        assert flag in helped.stdout
    wrong = tpuloop("--smoothing=2", f"--workdir={tmp_path / 'w'}", program=(SCRIPT,))
    assert wrong.returncode == 2 and "smoothing" in wrong.stderr.splitlines()[-1]
    status, stderr, again = stopped_and_continued(
        tmp_path / "run", signal.SIGTERM, "--steps=6000", "--steps_per_loop=6000", program=(SCRIPT,)
    )
    assert status == 75, stderr
    assert again.returncode == 0, again.stderr
    assert "held-out accuracy" in again.stdout
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(1, 6001))
    refused = tpuloop("evaluate", f"--workdir={tmp_path / 'run'}")
    assert refused.returncode == 2 and "research_script.py" in refused.stderr


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns(tmp_path, precision):
    result = tpuloop("train", "--steps=300", f"--mixed_precision={precision}", f"--workdir={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.split()[2].rstrip(",")) >= 0.93


def test_the_host_loop_gives_the_losses_of_the_compiled_one(tmp_path):
    for name, flags in (("graph", ()), ("host", ("--eager",))):
        result = tpuloop("train", "--steps=20", f"--workdir={tmp_path / name}", *flags)
        assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(curve(tmp_path / "graph"), curve(tmp_path / "host"), atol=1e-5)


def test_a_model_of_ones_own_beside_a_package_called_models(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text(
        "import tensorflow as tf\n"
        "def tiny(*, input_shape, num_classes, width=8):\n"
        "    layers = [tf.keras.layers.Flatten(input_shape=input_shape), tf.keras.layers.Dense(width, 'relu')]\n"
        "    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(num_classes)], name='tiny')\n"
    )
    result = tpuloop("train", "--model=models:tiny", "--steps=20", "--workdir=run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    # 64 x 8 + 8 weights, then 8 x 10 + 10.
    assert "model: tiny, 610 parameters" in result.stderr
    assert tpuloop("evaluate", "--workdir=run", cwd=tmp_path).returncode == 0
