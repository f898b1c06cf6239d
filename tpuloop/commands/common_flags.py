"""The flags that commands share, and the recipe they make. No TensorFlow here: `--help` must be quick."""

import contextlib
from typing import Any, Dict, List, Mapping, Optional

from absl import flags
from ml_collections import config_flags

from tpuloop.commands import quiet
from tpuloop.commands.recipe import Recipe, check_choice, make_recipe, resolve_config_path
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS

_ACCELERATORS = ("auto", "tpu", "gpu", "cpu")


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
        config_flags.DEFINE_config_file(
            "config",
            None,
            "Recipe: a Python file with get_config(), or the name of a shipped one; --config.FIELD=VALUE sets a field.",
        )
    flags.DEFINE_string("model", None, "Model: a name of the registry, or module:function of your own.")
    flags.DEFINE_string("data", None, "Data: the name of a data set, or module:function of your own.")
    flags.DEFINE_integer("steps", None, "Step to reach.")
    flags.DEFINE_integer("global_batch", None, "Examples a step, over all replicas.")
    flags.DEFINE_float("learning_rate", None, "Learning rate.")
    flags.DEFINE_string("optimizer", None, "Optimizer: adam, adamw, rmsprop or sgd.")
    flags.DEFINE_integer("seed", None, "Seed of initial weights, data order and random layers.")
    flags.DEFINE_string("steps_per_loop", None, "Most steps in one compiled call, or auto for about a second.")
    flags.DEFINE_string("mixed_precision", None, "What layers compute in: float32, bfloat16 or float16.")
    flags.DEFINE_integer("eval_every", None, "Steps between evaluations; by default at the end of each epoch.")
    flags.DEFINE_integer("save_every", None, "Steps between checkpoints; by default only one at the end.")
    flags.DEFINE_bool("eager", None, "Run step by step from Python, for debugging.")


def recipe_from_flags(defaults: Optional[Mapping[str, Any]] = None) -> Recipe:
    """The recipe of the command line: defaults, then --config with its overrides, then plain flags.

    Raises:
      UsageError: for a field or value that makes no recipe.
    """
    layers: List[Mapping[str, Any]] = [defaults or {}]
    config = FLAGS["config"].value if "config" in FLAGS else None
    if config is not None:
        layers.append(_config_fields(config))
    return make_recipe(*layers, _flag_fields())


def runtime_from_flags() -> Any:
    """The devices that the flags ask for. Loads TensorFlow."""
    check_choice("--accelerator", FLAGS.accelerator, _ACCELERATORS)
    with contextlib.nullcontext() if FLAGS.tf_logs else quiet.quiet_start():
        from tpuloop.runtime import Runtime

        runtime = Runtime.detect(accelerator=FLAGS.accelerator, tpu=FLAGS.tpu, replicas=FLAGS.replicas)
    if not FLAGS.tf_logs:
        quiet.filter_python_warnings()
    return runtime


def with_shipped_config(argv: List[str]) -> List[str]:
    """`argv` with the path of --config made real, as the flag's parser opens it at once."""
    resolved = []
    takes_value = False
    for argument in argv:
        for prefix in ("--config=", "-config="):
            if argument.startswith(prefix):
                argument = prefix + resolve_config_path(argument[len(prefix) :])
        if takes_value:
            argument = resolve_config_path(argument)
        takes_value = argument in ("--config", "-config")
        resolved.append(argument)
    return resolved


def _config_fields(config: Any) -> Dict[str, Any]:
    if not hasattr(config, "to_dict"):
        raise UsageError(f"get_config() of the recipe must return a ConfigDict; it returned a {type(config).__name__}")
    return config.to_dict()


def _flag_fields() -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    for name in ("steps", "global_batch", "seed", "mixed_precision", "eval_every", "save_every", "eager"):
        if FLAGS[name].value is not None:
            fields[name] = FLAGS[name].value
    for name in ("model", "data", "optimizer"):
        if FLAGS[name].value is not None:
            fields[name] = {"name": FLAGS[name].value}
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
