"""ResNet as torchvision names it: `torchvision.models.resnet50().state_dict()`."""

import re
from typing import Any, Callable, Collection, Dict, Optional, Tuple

from .errors import OtherVariant
from .layout import Layout, Source, as_it_is, by_name, convolution, transposed

_KINDS = {"conv": "conv", "bn": "norm"}
_OF_NORM = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def _translate(name: str) -> Optional[Tuple[str, Callable[..., Any]]]:
    path, _, part = name.rpartition(".")
    if path == "fc":
        return {"weight": ("logits/kernel", transposed), "bias": ("logits/bias", as_it_is)}.get(part)
    layer = _layer(path)
    if layer is None:
        return None
    if layer.endswith("norm") or layer[:-1].endswith("norm"):
        return (f"{layer}/{_OF_NORM[part]}", as_it_is) if part in _OF_NORM else None
    return (f"{layer}/kernel", convolution) if part == "weight" else None


def _layer(path: str) -> Optional[str]:
    """layer1.0.conv2 -> stage1_block1_conv2"""
    stem = re.fullmatch(r"(conv|bn)1", path)
    if stem:
        return f"stem_{_KINDS[stem[1]]}"
    inner = re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)", path)
    if inner:
        return f"stage{inner[1]}_block{int(inner[2]) + 1}_{_KINDS[inner[3]]}{inner[4]}"
    shortcut = re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.([01])", path)
    if shortcut:
        return f"stage{shortcut[1]}_block{int(shortcut[2]) + 1}_shortcut_{('conv', 'norm')[int(shortcut[3])]}"
    return None


def _sources(names: Collection[str], model: Any) -> Dict[str, Source]:
    layers = {layer.name: layer for layer in model.layers}
    first = layers.get("stage2_block1_conv1")
    # All shapes would agree. In a block of two the first convolution is a 3x3, and has the stride anyway.
    if first is not None and tuple(first.kernel_size) == (1, 1) and tuple(first.strides) != (1, 1):
        what = "its blocks have the stride in the 3x3 convolution, and the model's in the first"
        raise OtherVariant(what, argument="stride_in", value="3x3")
    return by_name(_translate)(names, model)


LAYOUT = Layout(
    title="torchvision ResNet",
    sign=r"layer1\.0\.conv1\.weight",
    sources=_sources,
    ignored=r".*\.num_batches_tracked",
)
