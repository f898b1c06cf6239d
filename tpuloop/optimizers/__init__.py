"""Optimizers by name, and learning rate schedules: Keras 2.9's own, and those it lacks or gets wrong.

Importing this package imports no TensorFlow, so that names can be listed quickly.
"""

import importlib
from typing import Any, Dict

from tpuloop.errors import UsageError

# "module:class"
OPTIMIZERS: Dict[str, str] = {
    "adam": "tensorflow.keras.optimizers:Adam",
    "adamw": "tpuloop.optimizers.adamw:AdamW",
    "lamb": "tpuloop.optimizers.lamb:LAMB",
    "lars": "tpuloop.optimizers.lars:LARS",
    "rmsprop": "tensorflow.keras.optimizers:RMSprop",
    "sgd": "tpuloop.optimizers.sgd:SGD",
}


def optimizer_class(name: str) -> Any:
    """The class of a name in `OPTIMIZERS`. Imports TensorFlow.

    Raises:
      UsageError: where it needs a package that is not installed.
    """
    module, _, attribute = OPTIMIZERS[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        if module == "tpuloop.optimizers.lamb":
            raise UsageError(
                f"optimizer {name!r} needs the package tensorflow-addons ({error}): install it with "
                "pip install 'tpuloop[addons]'"
            ) from error
        raise
