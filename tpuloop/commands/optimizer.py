"""Optimizers by name."""

import inspect
from typing import Any, Mapping

import tensorflow as tf

from tpuloop.commands.named import checked_arguments
from tpuloop.commands.recipe import check_choice, is_number
from tpuloop.errors import UsageError, first_line
from tpuloop.optimizers import OPTIMIZERS, optimizer_class


def make_optimizer(fields: Mapping[str, Any]) -> tf.keras.optimizers.Optimizer:
    """The optimizer of a recipe: its "name", and the other fields as arguments. In the strategy's scope.

    Raises:
      UsageError: for a name or argument that does not exist, or a value that makes no optimizer.
    """
    name = fields["name"]
    check_choice("optimizer", name, OPTIMIZERS)
    make = optimizer_class(name)
    arguments = {key: value for key, value in fields.items() if key != "name"}
    # Keras hides more behind **kwargs, such as clipnorm, which clips before the gradients are summed.
    arguments = checked_arguments(make, arguments, what=f"optimizer {name!r}", hidden=False)
    parameters = inspect.signature(make).parameters
    for key, value in arguments.items():
        _check_like(parameters[key].default, value, what=f"optimizer {name!r}: {key}")
    try:
        return make(**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"optimizer {name!r} cannot be made: {first_line(error)}") from error


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
