"""The architectures by name. Plain Keras: nothing here knows the training loop.

Importing this package imports no TensorFlow, so that names can be listed quickly.
"""

import dataclasses
import importlib
from typing import Any, Callable, Dict


@dataclasses.dataclass(frozen=True)
class Architecture:
    """An entry of the registry.

    Attributes:
      module, function: where the builder is; it takes keyword arguments only and returns a Keras model that gives
        float32 logits.
      task: what it is trained on, a name in `tasks.py`.
      summary: one line for `--help`.
    """

    module: str
    function: str
    task: str
    summary: str

    def builder(self) -> Callable[..., Any]:
        """The function that builds the model. Imports TensorFlow."""
        return getattr(importlib.import_module(f".{self.module}", __package__), self.function)


REGISTRY: Dict[str, Architecture] = {
    "mlp": Architecture("mlp", "mlp", "classification", "dense layers over flattened inputs"),
}
