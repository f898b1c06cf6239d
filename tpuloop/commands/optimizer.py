"""The optimizer and the learning rate of a recipe."""

import inspect
from typing import Any, Mapping, Optional

import tensorflow as tf

from tpuloop.commands.named import checked_arguments
from tpuloop.commands.recipe import LARGEST_FLOAT32, Recipe, is_number
from tpuloop.errors import UsageError, first_line
from tpuloop.optimizers import optimizer_class
from tpuloop.optimizers.schedule_settings import ScheduleSettings
from tpuloop.optimizers.schedules import make_schedule

# Keras takes any number for them, and trains to nothing.
_SHARES = ("beta_1", "beta_2", "momentum", "rho")
_NOT_NEGATIVE = ("epsilon", "weight_decay")


def make_optimizer(
    fields: Mapping[str, Any], *, run_steps: Optional[int] = None, global_batch: Optional[int] = None
) -> tf.keras.optimizers.Optimizer:
    """The optimizer of a recipe, as `Recipe.optimizer` describes it. In the strategy's scope.

    Args:
      fields: those of the recipe's optimizer.
      run_steps: the steps of the run, for the length of a schedule.
      global_batch: examples a step, for `rate_per_batch`; None where they differ.

    Raises:
      UsageError: for an argument that does not exist, or a value that makes no optimizer.
    """
    name = fields["name"]
    make = optimizer_class(name)
    arguments = {key: value for key, value in fields.items() if key not in ("name", "schedule", "rate_per_batch")}
    # Keras hides more behind **kwargs, such as clipnorm, which clips before the gradients are summed.
    arguments = checked_arguments(make, arguments, what=f"optimizer {name!r}", hidden=False)
    parameters = inspect.signature(make).parameters
    for key, value in arguments.items():
        _check_like(parameters[key].default, value, what=f"optimizer {name!r}: {key}")
        if key in _SHARES and not 0 <= value < 1:
            raise UsageError(f"optimizer {name!r}: {key} must be at least 0 and below 1; it is {value!r}")
        if key in _NOT_NEGATIVE and value < 0:
            raise UsageError(f"optimizer {name!r}: {key} must be at least 0; it is {value!r}")
    if "learning_rate" in arguments:
        arguments["learning_rate"] = _learning_rate(fields, run_steps=run_steps, global_batch=global_batch)
    try:
        return make(**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"optimizer {name!r} cannot be made: {first_line(error)}") from error


def describe_learning_rate(recipe: Recipe, *, global_batch: Optional[int]) -> str:
    """What becomes of the learning rate, in one line; nothing where it stays as the recipe gives it."""
    given, per_batch = recipe.optimizer.get("learning_rate"), recipe.optimizer.get("rate_per_batch")
    schedule, words = recipe.schedule, []
    if per_batch is not None:
        peak = _peak(recipe.optimizer, global_batch)
        words.append(f"{peak:.6g}, which is {given:.6g} for {per_batch} examples scaled to {global_batch}")
    elif schedule is not None:
        words.append(f"{given:.6g}")
    if schedule is not None and schedule.warmup_steps:
        reached = "" if schedule.warmup_steps < recipe.steps else ", in which the run ends"
        words.append(f"after a warm-up of {schedule.warmup_steps} steps{reached}")
    if schedule is not None and schedule.name != "constant":
        words.append(f"then {schedule.name}")
    return ", ".join(words)


def _learning_rate(fields: Mapping[str, Any], *, run_steps: Optional[int], global_batch: Optional[int]) -> Any:
    """The number, or the schedule that has it as its peak."""
    peak, schedule = _peak(fields, global_batch), fields.get("schedule")
    return peak if schedule is None else make_schedule(ScheduleSettings.of(schedule), peak=peak, run_steps=run_steps)


def _peak(fields: Mapping[str, Any], global_batch: Optional[int]) -> float:
    per_batch = fields.get("rate_per_batch")
    if per_batch is None:
        return fields["learning_rate"]
    if global_batch is None:
        raise UsageError(
            f"rate_per_batch={per_batch} needs batches of one size, and those of the data differ: leave it out"
        )
    peak = fields["learning_rate"] * global_batch / per_batch
    if peak >= LARGEST_FLOAT32:
        raise UsageError(f"learning_rate is {peak!r} when scaled by rate_per_batch: it must be below 3.4e38")
    return peak


def _check_like(default: Any, value: Any, *, what: str) -> None:
    """Refuses what is not of the default's kind: Keras takes nearly anything and fails when the step is traced."""
    if isinstance(default, bool):
        fits, wanted = isinstance(value, bool), "True or False"
    elif isinstance(default, str):
        fits, wanted = isinstance(value, str), "text"
    elif default is None:
        fits, wanted = value is None or is_number(value), "a number or None"
    else:
        fits, wanted = is_number(value), "a number"
    if not fits:
        raise UsageError(f"{what} must be {wanted}; it is {value!r}")
