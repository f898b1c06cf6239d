"""Outputs, gradients and statistics against torchvision's networks, from files that `golden/make_resnet.py` wrote."""

import json
import os
import re
import runpy

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
FORMULA = runpy.run_path(os.path.join(GOLDEN, "named_weights.py"))
PARTS = {
    ("conv", "weight"): "kernel",
    ("fc", "weight"): "kernel",
    ("fc", "bias"): "bias",
    ("norm", "weight"): "gamma",
    ("norm", "bias"): "beta",
    ("norm", "running_mean"): "moving_mean",
    ("norm", "running_var"): "moving_variance",
}


def our_name(name):
    """Of the variable that torchvision calls so."""
    layer, part = name.rsplit(".", 1)
    kind = "fc" if layer == "fc" else "norm" if "bn" in layer or layer.endswith("downsample.1") else "conv"
    found = re.fullmatch(r"layer(\d)\.(\d+)\.(?:(?:conv|bn)(\d)|downsample\.\d)", layer)
    if found is None:
        prefix = "logits" if kind == "fc" else f"stem_{kind}"
    else:
        stage, block, number = found.groups()
        prefix = f"stage{stage}_block{int(block) + 1}_" + (f"{kind}{number}" if number else f"shortcut_{kind}")
    return f"{prefix}/{PARTS[kind, part]}:0"


def as_theirs(values):
    """A kernel in PyTorch's layout."""
    return np.transpose(values, {4: [3, 2, 0, 1], 2: [1, 0], 1: [0]}[values.ndim])


def as_ours(values):
    return np.transpose(values, {4: [2, 3, 1, 0], 2: [1, 0], 1: [0]}[values.ndim])


def some(values):
    """As in the script."""
    flat = np.reshape(values, [-1])
    return flat[:: max(1, len(flat) // 7 - 1)][:8]


@pytest.fixture(scope="module", params=[18, 50])
def pair(request):
    """A model with their weights, the images, and what is known of theirs."""
    with open(os.path.join(GOLDEN, f"resnet{request.param}.json")) as file:
        golden = json.load(file)
    model = resnet(input_shape=(62, 47, 3), num_classes=10, depth=request.param)
    variables = {variable.name: variable for variable in model.variables}
    for name, shape in golden["state"].items():
        if not name.endswith("num_batches_tracked"):
            variables.pop(our_name(name)).assign(as_ours(FORMULA["named_weight"](name, shape)))
    assert not variables, "variables that theirs have not"
    images = FORMULA["named_images"]("images", [4, 3, 62, 47])
    return model, tf.constant(np.transpose(images, [0, 2, 3, 1])), golden


def test_outputs_are_those_of_torchvision(pair):
    model, images, golden = pair
    np.testing.assert_allclose(model(images, training=False), golden["evaluation"]["logits"], rtol=0, atol=1e-4)


def test_a_training_step_is_that_of_torchvision(pair):
    model, images, golden = pair
    golden = golden["training"]
    start = [variable.numpy() for variable in model.non_trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(golden["labels"], logits))
    np.testing.assert_allclose(logits, golden["logits"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(loss, golden["loss"], rtol=0, atol=1e-4)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = {variable.name: as_theirs(g.numpy()) for variable, g in zip(model.trainable_variables, gradients)}
    assert {our_name(name) for name in golden["gradient_norms"]} == set(gradients)
    for name, norm in golden["gradient_norms"].items():
        gradient = gradients[our_name(name)]
        # Where rounding moves the input of a ReLU over 0, a norm moves by up to 0.2 %, and some elements by more.
        np.testing.assert_allclose(np.linalg.norm(gradient), norm, rtol=1e-2, err_msg=name)
        if name in golden["gradients"]:
            atol = 5e-2 * norm / np.sqrt(gradient.size)
            np.testing.assert_allclose(some(gradient), golden["gradients"][name], rtol=1e-2, atol=atol, err_msg=name)
    variables = {variable.name: variable.numpy() for variable in model.non_trainable_variables}
    for variable, value in zip(model.non_trainable_variables, start):
        variable.assign(value)  # The model is shared with the other test.
    for name, values in golden["statistics"].items():
        np.testing.assert_allclose(some(variables[our_name(name)]), values, rtol=1e-4, atol=1e-5, err_msg=name)
