"""Residual networks: published sizes, names, what they start from, and the same function from either stem."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet


def trainable_count(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


@pytest.mark.parametrize(
    "depth, parameters", [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160), (152, 60_192_808)]
)
def test_the_sizes_are_the_published_ones(depth, parameters):
    with tf.Graph().as_default():  # Nothing is allocated.
        model = resnet(input_shape=(224, 224, 3), num_classes=1000, depth=depth)
        assert trainable_count(model) == parameters
        assert model.output_shape == (None, 1000)
        assert model.name == f"resnet{depth}"
