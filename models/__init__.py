"""The architectures by name. Plain Keras: nothing here knows the training loop.

Importing this package imports no TensorFlow, so that names can be listed quickly.
"""

import dataclasses
import functools
import importlib
from typing import Any, Callable, Dict, Mapping


@dataclasses.dataclass(frozen=True)
class Architecture:
    """An entry of the registry.

    Attributes:
      module, function: where the builder is; it takes keyword arguments only and returns a Keras model that gives
        float32 logits.
      task: what it is trained on, a name in `tasks.py`; a builder that has a head for each of several tasks takes the
        name as its argument `task`, and this is its default.
      summary: one line for `--help`.
      preset: the builder's arguments that the name stands for.
    """

    module: str
    function: str
    task: str
    summary: str
    preset: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def builder(self) -> Callable[..., Any]:
        """The function that builds the model. Imports TensorFlow."""
        function = getattr(importlib.import_module(f".{self.module}", __package__), self.function)
        return functools.partial(function, **self.preset)


def _resnet(depth: int) -> Architecture:
    return Architecture(
        "resnet", "resnet", "classification", f"ResNet-{depth} v1.5 for images", preset={"depth": depth}
    )


def _bert(layers: int, width: int) -> Architecture:
    return Architecture(
        "bert",
        "bert",
        "masked_lm",
        f"BERT encoder of {layers} layers, {width} wide, with the head that the task needs",
        preset={"layers": layers, "width": width},
    )


REGISTRY: Dict[str, Architecture] = {
    "mlp": Architecture("mlp", "mlp", "classification", "dense layers over flattened inputs"),
    "resnet18": _resnet(18),
    "resnet34": _resnet(34),
    "resnet50": _resnet(50),
    "resnet101": _resnet(101),
    "resnet152": _resnet(152),
    # The sizes of arXiv:1908.08962 and arXiv:1810.04805.
    "bert_tiny": _bert(2, 128),
    "bert_mini": _bert(4, 256),
    "bert_small": _bert(4, 512),
    "bert_medium": _bert(8, 512),
    "bert_base": _bert(12, 768),
    "bert_large": _bert(24, 1024),
}
