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
    first, second = _python_blocks()[:2]
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


def test_the_table_of_flowers_is_converted_and_learned(tmp_path):
    (tmp_path / "tests").symlink_to(os.path.join(ROOT, "tests"))
    recipe = re.search(r"^tpuloop data convert tests/.*?(?=```)", _readme(), flags=re.DOTALL | re.MULTILINE)[0]
    commands = [line.split("#")[0] for line in recipe.splitlines()]
    assert [command.split()[1] for command in commands] == ["data", "data", "train"]
    outputs = []
    for command in commands:
        words = [sys.executable, "-m", "tpuloop", *command.split()[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "examples (train" in outputs[0] and "examples (test" in outputs[0]
    accuracy = re.search(r"held-out accuracy ([\d.]+)", outputs[-1])
    assert float(accuracy[1]) > 0.85


def test_the_sources_of_the_example_give_batches(tmp_path):
    preparation = """
import numpy as np, os, subprocess, sys
import tensorflow as tf
os.makedirs("data")
with tf.io.TFRecordWriter("data/a.tfrecord") as writer:
    for number in range(40):
        feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[number] * 4)),
                   "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 3]))}
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
np.savez("more.npz", x=np.zeros([30, 4], np.float32), y=np.arange(30) % 3)
command = [sys.executable, "-m", "tpuloop", "data", "convert", "more.npz", "--label=y", "--out=data/more"]
subprocess.run(command, check=True)
"""
    (example,) = [block for block in _python_blocks() if "MixtureSource" in block]
    check = "x, y = next(iter(mixture.batches(batch_size=10, seed=0)))\nprint(x.shape, y.shape, mixture.size)\n"
    script = tmp_path / "example.py"
    script.write_text("\n".join([preparation, example, check]))
    _, done = _run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(10, 4) (10,) 70"


def test_nothing_was_left_to_be_filled_in():
    assert "@@" not in _readme() and "TODO" not in _readme()
