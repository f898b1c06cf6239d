"""The README's code runs, and what it says of commands is so."""

import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def _python_blocks():
    return re.findall(r"```python\n(.*?)```", _readme(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def subclass_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    script = folder / "example.py"
    # The second block goes on from the first, with arrays of its own.
    arrays = (
        "import numpy as np\n"
        "x = np.zeros([64, 8, 8, 1], 'float32'); y = np.arange(64) % 10; x_val, y_val = x, y\n"
        "loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n"
        "model.compile('adam', loss)\n"
    )
    first, second = _python_blocks()
    script.write_text("\n".join([first, arrays, second, "print(loop.model.history.history['val_loss'])"]))
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.run([sys.executable, str(script)], cwd=folder, env=env, capture_output=True, text=True)


def test_the_subclass_example_learns(subclass_run):
    assert subclass_run.returncode == 0, subclass_run.stderr
    accuracies = [float(value) for value in subclass_run.stdout.splitlines()[0].strip("[]").split(",")]
    # 600 steps are 26 passes over the digits; each pass has one entry if an evaluation fell into it.
    assert accuracies[-1] > 0.93


def test_the_line_for_line_example_runs(subclass_run):
    assert subclass_run.returncode == 0, subclass_run.stderr
    losses = [float(value) for value in subclass_run.stdout.splitlines()[1].strip("[]").split(",")]
    assert 1 <= len(losses) <= 3


def test_the_subclass_example_is_about_thirty_lines():
    lines = [line for line in _python_blocks()[0].splitlines() if line.strip()]
    assert len(lines) <= 30


def test_commands_and_files_that_are_named_exist():
    from tpuloop.__main__ import COMMANDS

    for command in re.findall(r"^tpuloop (\w+)", _readme(), flags=re.MULTILINE):
        assert command in COMMANDS
    for path in re.findall(r"`(tpuloop/[\w/]+(?:\.py)?)`", _readme()) + re.findall(r"\]\(([\w/.]+)\)", _readme()):
        assert os.path.exists(os.path.join(ROOT, path)), path
