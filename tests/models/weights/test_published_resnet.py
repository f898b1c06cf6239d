"""Files of whole networks into our ResNet; what it computes with torchvision's, tests/models compares."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.resnet import resnet
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def layers_of(names):
    return {name.partition("/")[0] for name in names}


def test_a_file_of_fewer_layers_is_warned_of_by_every_name(tmp_path):
    golden = json.loads((GOLDEN / "resnet18.json").read_text())
    state = {name: np.zeros(shape, np.float32) for name, shape in golden["state"].items()}
    save_file({name: array for name, array in state.items() if "layer4" not in name}, tmp_path / "cut.safetensors")
    save_file(state, tmp_path / "whole.safetensors")
    model = resnet(input_shape=(32, 32, 3), num_classes=10, depth=18)
    cut = assign(model, find(str(tmp_path / "cut.safetensors")).open())
    assert cut.missing == cut.new and layers_of(cut.new) == {
        layer.name for layer in model.layers if layer.name.startswith("stage4_") and layer.weights
    }
    (line,) = cut.warnings("P")
    assert line == f"P has no {', '.join(cut.missing)}: they start from initial values"
    assert cut.summary("P").endswith(f"; missing in the file: {len(cut.missing)}")
    deeper = resnet(input_shape=(32, 32, 3), num_classes=3, depth=34)
    short = assign(deeper, find(str(tmp_path / "whole.safetensors")).open())
    # 16 blocks of 2 convolutions, each with a norm of 4, and not 8.
    assert len(short.missing) == 8 * 2 * 5 and short.foreign == ()
    assert "stage1_block3_conv1/kernel" in short.missing and "logits/kernel" not in short.missing
    assert "logits/kernel" in short.new and all(name in short.warnings("P")[0] for name in short.missing)
    long = assign(model, find(str(tmp_path / "whole.safetensors")).open())
    assert long.warnings("P") == []


def randomise(model):
    """Weights at which every layer counts, statistics and biases too."""
    random = np.random.RandomState(0)
    for variable in model.variables:
        name, size = variable.name, variable.shape
        if "variance" in name:
            variable.assign(random.uniform(0.5, 1.5, size))
        elif "gamma" in name:
            variable.assign(random.uniform(0.2, 0.6, size))
        elif "kernel" in name:
            variable.assign(random.normal(0, (2 / np.prod(size[:-1])) ** 0.5, size))
        else:
            variable.assign(random.normal(0, 0.1, size))


@pytest.mark.slow
def test_resnet_50_of_keras_applications_computes_the_same_here(tmp_path):
    theirs = tf.keras.applications.ResNet50(
        weights=None, input_shape=(64, 64, 3), classes=7, classifier_activation=None
    )
    randomise(theirs)
    theirs.save_weights(str(tmp_path / "resnet50.h5"))
    ours = resnet(input_shape=(64, 64, 3), num_classes=7, depth=50, stride_in="1x1")
    report = assign(ours, find(str(tmp_path / "resnet50.h5")).open())
    assert report.layout == "Keras Applications ResNet" and report.new == report.unused == ()
    images = np.random.RandomState(1).normal(size=[2, 64, 64, 3]).astype(np.float32)
    expected = theirs(images).numpy()
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(ours(images), expected, atol=1e-4, rtol=1e-4)
