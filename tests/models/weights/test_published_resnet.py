"""Files of whole networks: every variable of our ResNet comes from them, and computes the same."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find


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

    with tf.Graph().as_default(), pytest.raises(ValueError, match="build the model with stride_in='1x1'"):
        assign(resnet(input_shape=(64, 64, 3), num_classes=7, depth=50), find(str(tmp_path / "resnet50.h5")).open())
