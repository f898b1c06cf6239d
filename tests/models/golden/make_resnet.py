"""Writes resnet18.json and resnet50.json: torchvision's networks with the weights of `named_weights.py`.

Needs an environment with torch and torchvision, not tpuloop's own; written with torch 2.14.1, torchvision 0.29.1 and
NumPy 2.4.6, and not meant to differ with others. Run `python make_resnet.py`; the files go beside this one.

All is computed in float64, so that what remains between the files and ours is our own rounding. Tensors are in PyTorch's
layout: images and activations [batch, channels, height, width], kernels [outputs, inputs, height, width].
"""

import json
import os

import numpy as np
import torch
import torchvision
from named_weights import named_images, named_weight

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = 10
# An even and an odd size, of which some layers halve odd and even ones.
HEIGHT, WIDTH = 62, 47
LABELS = [3, 1, 4, 1]


def numbers(tensor):
    return np.round(tensor.detach().numpy(), 7).tolist()


def some(tensor):
    """Eight values from all over a tensor."""
    flat = tensor.detach().reshape(-1)
    return [float(f"{value:.7g}") for value in flat[:: max(1, len(flat) // 7 - 1)][:8].tolist()]


def golden(build):
    model = build(num_classes=CLASSES)
    state = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    weights = {
        name: torch.from_numpy(named_weight(name, shape))
        for name, shape in state.items()
        if not name.endswith("num_batches_tracked")
    }
    model.load_state_dict(weights, strict=False)
    model = model.double().eval()
    images = torch.from_numpy(named_images("images", [len(LABELS), 3, HEIGHT, WIDTH])).double()
    evaluation = {"logits": numbers(model(images))}

    model.train()
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS))
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    statistics = {name: tensor for name, tensor in model.state_dict().items() if "running" in name}
    return {
        "state": state,
        "evaluation": evaluation,
        "training": {
            "labels": LABELS,
            "logits": numbers(logits),
            "loss": round(loss.item(), 7),
            "gradient_norms": {name: float(f"{gradient.norm():.7g}") for name, gradient in gradients.items()},
            "gradients": {
                name: some(gradients[name]) for name in gradients if "layer3.0" in name or "layer" not in name
            },
            "statistics": {name: some(statistics[name]) for name in statistics if ".0" in name or "layer" not in name},
        },
    }


if __name__ == "__main__":
    for name in ("resnet18", "resnet50"):
        with open(os.path.join(HERE, f"{name}.json"), "w") as file:
            json.dump(golden(getattr(torchvision.models, name)), file, separators=(",", ":"))
            file.write("\n")
