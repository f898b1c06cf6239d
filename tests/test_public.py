"""The public names, and that neither they nor a command's help load TensorFlow before it is needed."""

import subprocess
import sys

import pytest

import tpuloop
from tpuloop.__main__ import COMMANDS

FLAGS_OF_TRAIN = (
    "accelerator config config.FIELD data debug eager eval_every global_batch init_from learning_rate mixed_precision "
    "model on_bad_record optimizer replicas save_every seed steps steps_per_loop tf_logs tpu workdir"
).split()


def python(program, *arguments):
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, encoding="utf-8")


def test_every_public_name_is_there():
    assert tpuloop.__all__ == sorted(tpuloop.__all__)
    for name in tpuloop.__all__:
        value = getattr(tpuloop, name)
        assert value.__doc__, name
        assert name in dir(tpuloop)
    with pytest.raises(AttributeError, match="module 'tpuloop' has no attribute 'TrianLoop'"):
        tpuloop.TrianLoop  # noqa: B018


def test_the_import_is_quick_for_it_loads_neither_tensorflow_nor_numpy():
    done = python(
        "import sys, tpuloop; print([name for name in ('tensorflow', 'numpy', 'keras') if name in sys.modules])"
    )
    assert done.stdout == "[]\n", done.stderr


HELP = (
    "import sys\n"
    "from tpuloop.__main__ import main\n"
    "status = main(sys.argv[1:])\n"
    "loaded = [name for name in ('tensorflow', 'keras') if name in sys.modules]\n"
    "sys.exit(f'{loaded} were loaded' if loaded else status)\n"
)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_the_commands(arguments):
    done = python(HELP, *arguments)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "export"])
def test_help_of_a_command(command):
    done = python(HELP, command, "--help")
    assert done.returncode == 0, done.stderr
    usage, _, summary, *_ = done.stdout.splitlines()
    assert usage == f"usage: tpuloop {command} --flag=value" and summary
    assert "\n  --workdir\n" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    assert not done.stderr


def test_train_has_these_flags_and_says_something_of_each():
    lines = python(HELP, "train", "--workdir=x", "--help").stdout.splitlines()
    listed = [line[4:] for line in lines if line.startswith("  --")]
    assert listed == FLAGS_OF_TRAIN
    for line, following in zip(lines, lines[1:]):
        assert not line.startswith("  --") or following.startswith("      ")


def test_the_version():
    assert python(HELP, "--version").stdout == f"tpuloop {tpuloop.__version__}\n"
