"""ResNet-50, 101 and 152 of Keras Applications: the paper's variant, with the stride in a block's first convolution.

Its convolutions have biases. The batch norm that follows subtracts its moving mean, so a bias is the same as a smaller
mean; only training is another thing, as a mean over the batch takes a bias away. Its epsilon differs from ours, which
the moving variance makes up for. The weights want images as `tf.keras.applications.resnet.preprocess_input` makes them.
"""

import re
from typing import Any, Collection, Dict, Optional

import numpy as np

from .errors import OtherVariant
from .layout import Layout, Source

_EPSILON = 1.001e-5
_OF_NORM = ("gamma", "beta", "moving_mean", "moving_variance")


def _sources(names: Collection[str], model: Any) -> Dict[str, Source]:
    if any("preact" in name for name in names):
        raise ValueError("it is a ResNet V2, with the normalisation before the convolutions: no model here is one")
    layers = {layer.name: layer for layer in model.layers}
    first = layers.get("stage2_block1_conv1")
    if first is not None and tuple(first.strides) != (2, 2):
        what = "its blocks have the stride in their first convolution, and the model's in the 3x3"
        raise OtherVariant(what, argument="stride_in", value="1x1")
    found: Dict[str, Source] = {}
    for name in sorted(names):
        layer, _, part = name.rpartition("/")
        conv, kind = re.fullmatch(r"(.*?)(?:_(conv|bn))?", layer).groups()  # type: ignore[union-attr]
        if layer in ("predictions", "probs"):
            found[f"logits/{part}"] = Source((name,))
            continue
        ours = _layer(conv)
        if ours is None:
            continue
        norm = ours.replace("conv", "norm")
        if kind == "conv" and part == "kernel":
            found[f"{ours}/kernel"] = Source((name,))
        elif kind == "bn" and part == "moving_mean" and f"{conv}_conv/bias" in names:
            found[f"{norm}/{part}"] = Source((name, f"{conv}_conv/bias"), np.subtract)
        elif kind == "bn" and part == "moving_variance":
            found[f"{norm}/{part}"] = Source((name,), _variance(getattr(layers.get(norm), "epsilon", _EPSILON)))
        elif kind == "bn" and part in _OF_NORM:
            found[f"{norm}/{part}"] = Source((name,))
    return found


def _layer(name: str) -> Optional[str]:
    """conv2_block1_3 -> stage1_block1_conv3"""
    if name == "conv1":
        return "stem_conv"
    block = re.fullmatch(r"conv(\d)_block(\d+)_(\d)", name)
    if block is None:
        return None
    part = "shortcut_conv" if block[3] == "0" else f"conv{block[3]}"
    return f"stage{int(block[1]) - 1}_block{block[2]}_{part}"


def _variance(epsilon: float) -> Any:
    return lambda variance: variance + np.float32(_EPSILON - epsilon)


LAYOUT = Layout(title="Keras Applications ResNet", sign=r"conv2_block1_(1_conv|preact_bn)/\w+", sources=_sources)
