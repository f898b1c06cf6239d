"""From a command line to a recipe, and from an error to a line and an exit status."""

import functools
import logging
import sys
import types

import pytest
from absl import flags

from tpuloop.commands import common_flags, program
from tpuloop.commands.recipe import Recipe
from tpuloop.errors import UsageError

DEFINERS = ("DEFINE_string", "DEFINE_integer", "DEFINE_float", "DEFINE_bool", "DEFINE_enum", "DEFINE_multi_string")


@pytest.fixture(autouse=True)
def _as_if_nothing_had_run(monkeypatch):
    """Each test has flags of its own, and leaves the streams and the logger as they were."""
    values = flags.FlagValues()
    for module in (common_flags, program):
        monkeypatch.setattr(module, "FLAGS", values)
    for name in DEFINERS:
        monkeypatch.setattr(flags, name, functools.partial(getattr(flags, name), flag_values=values))
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    logger = logging.getLogger("tpuloop")
    monkeypatch.setattr(logger, "propagate", logger.propagate)
    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    level = logger.level
    yield
    logger.setLevel(level)


def recipe_of(*argv, defaults=None):
    """The recipe of a command line."""
    common_flags.define_recipe_flags()
    common_flags.FLAGS(["program", *common_flags.with_one_field_flag(argv)])
    return common_flags.recipe_from_flags(defaults)


def command(run):
    """A command's module with two flags."""

    def define_flags():
        common_flags.define_workdir_flag("Folder of the run.")
        common_flags.define_runtime_flags()

    return types.SimpleNamespace(SUMMARY="does something", define_flags=define_flags, run=run)


def test_a_plain_flag_sets_its_field():
    recipe = recipe_of(
        *("--model=mine:net", "--data=mine:data", "--optimizer=sgd", "--learning_rate=0.5", "--steps=5", "--seed=6"),
        *("--global_batch=7", "--steps_per_loop=8", "--eval_every=9", "--save_every=10", "--eager"),
        "--mixed_precision=bfloat16",
    )
    assert recipe == Recipe(
        model={"name": "mine:net"},
        data={"name": "mine:data"},
        optimizer={"name": "sgd", "learning_rate": 0.5},
        steps=5,
        seed=6,
        global_batch=7,
        steps_per_loop=8,
        eval_every=9,
        save_every=10,
        eager=True,
        mixed_precision="bfloat16",
    )


def test_steps_per_loop_is_a_number_or_auto():
    assert recipe_of("--steps_per_loop=auto").steps_per_loop == "auto"


def test_ranks_are_defaults_then_the_file_then_its_fields_and_plain_flags():
    given = ("--config=mlp_digits", "--config.save_every=5", "--config.eval_every=6", "--eval_every=7")
    recipe = recipe_of(*given, defaults={"seed": 3, "clip_norm": 2.0})
    assert recipe.clip_norm == 2.0  # The file says nothing of it.
    assert recipe.seed == 0  # It says 0.
    assert (recipe.steps, recipe.save_every, recipe.eval_every) == (1500, 5, 7)
    assert recipe.model == {"name": "mlp", "hidden": (128, 64)}


def test_any_field_can_be_set_with_a_file_or_without_in_any_place():
    recipe = recipe_of("--config.clip_norm=1.5", "-config.model.dropout=0.1", "--config=mlp_digits")
    assert recipe.clip_norm == 1.5
    assert recipe.model == {"name": "mlp", "hidden": (128, 64), "dropout": 0.1}


def test_a_plain_flag_leaves_the_other_arguments_of_the_same_command_line():
    recipe = recipe_of(
        "--config=mlp_digits", "--config.optimizer.momentum=0.9", "--optimizer=sgd", "--learning_rate=0.1"
    )
    assert recipe.optimizer == {"name": "sgd", "momentum": 0.9, "learning_rate": 0.1}


def test_a_program_without_recipes_has_no_flag_of_their_fields():
    assert common_flags.with_one_field_flag(["--config.steps=3"]) == ["--config.steps=3"]
    common_flags.define_recipe_flags(with_config=False)
    assert "config" not in common_flags.FLAGS


def test_a_command_runs_with_its_flags_parsed_and_gives_its_status(capsys):
    def run():
        print(common_flags.FLAGS.workdir)
        return 75

    assert program.run_command(command(run), "name", ["--workdir=here"]) == 75
    assert capsys.readouterr() == ("here\n", "")


def test_help_comes_before_anything_else(capsys):
    assert program.run_command(command(None), "name", ["--workdir=x", "--nonsense", "--help"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("usage: tpuloop name --flag=value\n\ndoes something\n\n  --accelerator\n")
    assert "  --workdir\n      Folder of the run.\n" in out and "Default: auto." in out


@pytest.mark.parametrize(
    "error, status, text",
    [
        (UsageError("wrong\n  value"), 2, "tpuloop name: error: wrong value\n"),
        (KeyboardInterrupt(), 130, "tpuloop name: interrupted\n"),
        (OSError(28, "No space left on device"), 1, "tpuloop name: error: [Errno 28] No space left on device\n"),
    ],
)
def test_errors_that_are_a_line(capsys, error, status, text):
    def run():
        raise error

    assert program.run_command(command(run), "name", []) == status
    assert capsys.readouterr() == ("", text)


def test_errors_of_the_loop_are_a_line(capsys):
    from tpuloop import CheckpointError, DataError, RuntimeUnavailable  # With TensorFlow.

    for error, status in ((CheckpointError("c"), 1), (DataError("d"), 2), (RuntimeUnavailable("r"), 2)):
        assert program._status_of(error) == status
    assert program._status_of(ValueError("other")) is None


def test_any_other_error_is_raised():
    def run():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program.run_command(command(run), "name", [])


@pytest.mark.parametrize("flag", ["--debug", "-debug", "--debug=true", "--debug=True"])
def test_debug_adds_the_traceback(capsys, flag):
    def run():
        raise UsageError("wrong")

    assert program.run_command(command(run), "name", [flag]) == 2
    _, err = capsys.readouterr()
    assert err.startswith("Traceback (most recent call last)") and err.endswith("tpuloop name: error: wrong\n")


def test_what_tpuloop_says_are_plain_lines(capsys):
    def run():
        logging.getLogger("tpuloop").info("as it is")
        logging.getLogger("tpuloop").warning("of %d", 3)
        return 0

    program.run_command(command(run), "name", [])
    assert capsys.readouterr().err == "as it is\nwarning: of 3\n"
