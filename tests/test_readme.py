"""The README's code runs, and what it says of commands is so."""

import ast
import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # Its examples do not differ by the version of Python.

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
        "compiled_model = model\n"
    )
    first, second = _python_blocks()
    script.write_text("\n".join([first, arrays, second, "print(loop.model.history.history['val_loss'])"]))
    return _run(script)


def _run(script):
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([sys.executable, str(script)], cwd=script.parent, env=env, capture_output=True, text=True)
    return script, done


def test_the_subclass_example_learns(subclass_run):
    script, first = subclass_run
    assert first.returncode == 0, first.stderr
    assert ast.literal_eval(first.stdout.splitlines()[0])["accuracy"] > 0.93


def test_the_examples_give_the_same_when_they_are_run_again(subclass_run):
    script, first = subclass_run
    _, second = _run(script)
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines()[0] == first.stdout.splitlines()[0]
    assert "nothing to do: the run has ended at step 600" in second.stderr


def test_the_line_for_line_example_runs(subclass_run):
    _, first = subclass_run
    assert first.returncode == 0, first.stderr
    losses = [float(value) for value in first.stdout.splitlines()[1].strip("[]").split(",")]
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
