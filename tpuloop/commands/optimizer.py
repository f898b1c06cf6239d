"""Optimizers by name."""

from typing import Any, Dict, Mapping

import tensorflow as tf

from tpuloop.commands.named import checked_arguments
from tpuloop.commands.recipe import check_choice

OPTIMIZERS: Dict[str, Any] = {
    "adam": tf.keras.optimizers.Adam,
    "adamw": tf.keras.optimizers.experimental.AdamW,
    "rmsprop": tf.keras.optimizers.RMSprop,
    "sgd": tf.keras.optimizers.SGD,
}


def make_optimizer(fields: Mapping[str, Any]) -> tf.keras.optimizers.Optimizer:
    """The optimizer of a recipe: its "name", and the other fields as arguments. In the strategy's scope.

    Raises:
      UsageError: for a name or argument that does not exist.
    """
    name = fields["name"]
    check_choice("optimizer", name, OPTIMIZERS)
    make = OPTIMIZERS[name]
    arguments = {key: value for key, value in fields.items() if key != "name"}
    return make(**checked_arguments(make, arguments, what=f"optimizer {name!r}"))
