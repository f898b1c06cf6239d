"""The flags that commands share, and the recipe they make. No TensorFlow here: `--help` must be quick."""

import contextlib
import importlib
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from absl import flags

from tpuloop.accelerators import ACCELERATORS
from tpuloop.commands import config_file, quiet
from tpuloop.commands.recipe import Recipe, check_choice, make_recipe
from tpuloop.errors import UsageError
from tpuloop.optimizers import OPTIMIZERS

FLAGS = flags.FLAGS

_FIELD = "config.FIELD"


def define_runtime_flags() -> None:
    """Which devices, and how much is said."""
    flags.DEFINE_string("accelerator", "auto", "auto (TPU, else GPU, else CPU), tpu, gpu or cpu.")
    flags.DEFINE_string("tpu", None, "TPU to use: its name, local on a TPU VM, or grpc://ADDRESS.")
    flags.DEFINE_integer(
        "replicas", None, "On a CPU: logical devices to rehearse that many replicas on; on GPUs: how many."
    )
    flags.DEFINE_bool("tf_logs", False, "Show all of TensorFlow's own messages.")
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")


def define_workdir_flag(help_text: str) -> None:
    """The folder of the run."""
    flags.DEFINE_string("workdir", None, help_text)


def define_recipe_flags(*, with_config: bool = True) -> None:
    """What is trained. Each common field of a recipe has a flag of its own, which has the last word."""
    if with_config:
        flags.DEFINE_string("config", None, "Recipe: a Python file with get_config(), or the name of one that ships.")
        flags.DEFINE_multi_string(
            _FIELD, [], "Sets any field of the recipe, such as --config.optimizer.learning_rate=0.01."
        )
    names = ", ".join(importlib.import_module("tpuloop.models").REGISTRY)
    flags.DEFINE_string("model", None, f"Model: {names}, or module:function of your own.")
    flags.DEFINE_string("data", None, "Data: the name of a data set, or module:function of your own.")
    flags.DEFINE_enum("on_bad_record", None, ["fail", "skip"], "What to do with records that cannot be used.")
    flags.DEFINE_integer("steps", None, "Step to reach.")
    flags.DEFINE_integer("global_batch", None, "Examples a step, over all replicas.")
    flags.DEFINE_float("learning_rate", None, "Learning rate.")
    flags.DEFINE_string("optimizer", None, f"Optimizer: {', '.join(OPTIMIZERS)}.")
    flags.DEFINE_string("init_from", None, "Weights that a new run starts from: published ones, or another run's.")
    flags.DEFINE_integer("seed", None, "Seed of initial weights, data order and random layers.")
    flags.DEFINE_string("steps_per_loop", None, "Most steps in one compiled call, or auto for about a second.")
    flags.DEFINE_string("mixed_precision", None, "What layers compute in: float32, bfloat16 or float16.")
    flags.DEFINE_integer("eval_every", None, "Steps between evaluations; by default at the end of each epoch.")
    flags.DEFINE_integer("save_every", None, "Steps between checkpoints; by default only one at the end.")
    flags.DEFINE_bool("eager", None, "Run step by step from Python, for debugging.")


def recipe_from_flags(defaults: Optional[Mapping[str, Any]] = None) -> Recipe:
    """The recipe of the command line: defaults, then --config, then --config.FIELD together with plain flags.

    Raises:
      UsageError: for a field or value that makes no recipe.
    """
    layers: List[Mapping[str, Any]] = [defaults or {}]
    asked = _flag_fields()
    if "config" in FLAGS:
        if FLAGS["config"].value is not None:
            layers.append(config_file.load_config(FLAGS["config"].value))
        # One layer: --optimizer=sgd leaves --config.optimizer.momentum=0.9 as it is.
        for name, value in config_file.fields_of(FLAGS[_FIELD].value or []).items():
            both_nested = isinstance(value, dict) and isinstance(asked.get(name), dict)
            asked[name] = {**value, **asked[name]} if both_nested else asked.get(name, value)
    return make_recipe(*layers, asked)


def runtime_from_flags() -> Any:
    """The devices that the flags ask for. Loads TensorFlow."""
    check_choice("--accelerator", FLAGS.accelerator, ACCELERATORS)
    with contextlib.nullcontext() if FLAGS.tf_logs else quiet.quiet_start():
        from tpuloop.runtime import Runtime

        runtime = Runtime.detect(accelerator=FLAGS.accelerator, tpu=FLAGS.tpu, replicas=FLAGS.replicas)
    if not FLAGS.tf_logs:
        quiet.filter_python_warnings()
    return runtime


def with_one_field_flag(argv: Sequence[str]) -> List[str]:
    """`argv` with each --config.NAME=VALUE as --config.FIELD=NAME=VALUE, the one flag that absl knows of them."""
    if _FIELD not in FLAGS:
        return list(argv)
    return [re.sub(r"^--?config\.", f"--{_FIELD}=", argument) for argument in argv]


def _flag_fields() -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    for name in ("steps", "global_batch", "init_from", "seed", "mixed_precision", "eval_every", "save_every", "eager"):
        if FLAGS[name].value is not None:
            fields[name] = FLAGS[name].value
    for name in ("model", "data", "optimizer"):
        if FLAGS[name].value is not None:
            fields[name] = {"name": FLAGS[name].value}
    if FLAGS.on_bad_record is not None:
        fields["data"] = {**fields.get("data", {}), "on_bad_record": FLAGS.on_bad_record}
    if FLAGS.learning_rate is not None:
        fields["optimizer"] = {**fields.get("optimizer", {}), "learning_rate": FLAGS.learning_rate}
    if FLAGS.steps_per_loop is not None:
        fields["steps_per_loop"] = _steps_per_loop(FLAGS.steps_per_loop)
    return fields


def _steps_per_loop(text: str) -> Any:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--steps_per_loop={text}: it must be an integer of at least 1, or auto") from None
