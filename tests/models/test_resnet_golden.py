"""Outputs, gradients and statistics against torchvision's networks, from files that `golden/make_resnet.py` wrote."""

import json
import os
import runpy

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.resnet import resnet
from tpuloop.models.weights import torchvision_resnet
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
FORMULA = runpy.run_path(os.path.join(GOLDEN, "named_weights.py"))


def as_theirs(values):
    """A kernel in PyTorch's layout."""
    return np.transpose(values, {4: [3, 2, 0, 1], 2: [1, 0], 1: [0]}[values.ndim])


def some(values):
    """As in the script."""
    flat = np.reshape(values, [-1])
    return flat[:: max(1, len(flat) // 7 - 1)][:8]


@pytest.fixture(scope="module", params=[18, 50])
def pair(request, tmp_path_factory):
    """A model with their weights, the images, what is known of theirs, and the names of our variables by theirs."""
    with open(os.path.join(GOLDEN, f"resnet{request.param}.json")) as file:
        golden = json.load(file)
    counters = {name for name in golden["state"] if name.endswith("num_batches_tracked")}
    state = {name: FORMULA["named_weight"](name, shape) for name, shape in golden["state"].items()}
    path = tmp_path_factory.mktemp("torchvision") / "model.safetensors"
    save_file({**state, **{name: np.array(7) for name in counters}}, path)
    model = resnet(input_shape=(62, 47, 3), num_classes=10, depth=request.param)
    report = assign(model, find(str(path)).open())
    assert report.layout == "torchvision ResNet" and report.new == report.unused == () and counters
    assert len(report.loaded) == len(model.variables) == len(state) - len(counters)
    sources = torchvision_resnet.LAYOUT.sources(state, model)
    our_names = {source.names[0]: f"{ours}:0" for ours, source in sources.items()}
    images = FORMULA["named_images"]("images", [4, 3, 62, 47])
    return model, tf.constant(np.transpose(images, [0, 2, 3, 1])), golden, our_names


def test_outputs_are_those_of_torchvision(pair):
    model, images, golden, _ = pair
    np.testing.assert_allclose(model(images, training=False), golden["evaluation"]["logits"], rtol=0, atol=1e-4)


def test_a_training_step_is_that_of_torchvision(pair):
    model, images, golden, our_names = pair
    golden = golden["training"]
    start = [variable.numpy() for variable in model.non_trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(golden["labels"], logits))
    np.testing.assert_allclose(logits, golden["logits"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(loss, golden["loss"], rtol=0, atol=1e-4)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = {variable.name: as_theirs(g.numpy()) for variable, g in zip(model.trainable_variables, gradients)}
    assert {our_names[name] for name in golden["gradient_norms"]} == set(gradients)
    for name, norm in golden["gradient_norms"].items():
        gradient = gradients[our_names[name]]
        # Where rounding moves the input of a ReLU over 0, a norm moves by up to 0.2 %, and some elements by more.
        np.testing.assert_allclose(np.linalg.norm(gradient), norm, rtol=1e-2, err_msg=name)
        if name in golden["gradients"]:
            atol = 5e-2 * norm / np.sqrt(gradient.size)
            np.testing.assert_allclose(some(gradient), golden["gradients"][name], rtol=1e-2, atol=atol, err_msg=name)
    variables = {variable.name: variable.numpy() for variable in model.non_trainable_variables}
    for variable, value in zip(model.non_trainable_variables, start):
        variable.assign(value)  # The model is shared with the other test.
    for name, values in golden["statistics"].items():
        np.testing.assert_allclose(some(variables[our_names[name]]), values, rtol=1e-4, atol=1e-5, err_msg=name)
