"""The stem on blocks of pixels: the function, the gradients and the variables of the plain convolution."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet
from tpuloop.models.space_to_depth import SpaceToDepthConv2D


def plain(images, kernel):
    return tf.nn.conv2d(images, kernel, 2, [[0, 0], [3, 3], [3, 3], [0, 0]])


@pytest.mark.parametrize("height, width, channels", [(2, 2, 3), (6, 10, 3), (32, 24, 1), (16, 16, 5)])
def test_outputs_and_gradients_are_those_of_the_plain_convolution(height, width, channels):
    layer = SpaceToDepthConv2D(4)
    images = tf.random.normal([2, height, width, channels])
    layer.build(images.shape)
    weights = tf.random.normal([2, height // 2, width // 2, 4])
    results = []
    for convolve in (layer, lambda images: plain(images, layer.kernel)):
        with tf.GradientTape() as tape:
            tape.watch(images)
            outputs = convolve(images)
            loss = tf.reduce_sum(weights * outputs)
        results.append([outputs, *tape.gradient(loss, [images, layer.kernel])])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_networks_of_either_stem_have_the_same_variables_and_logits():
    models = [
        resnet(input_shape=(32, 64, 3), num_classes=10, depth=18, stem=stem, zero_init_gamma=False)
        for stem in ("imagenet", "space_to_depth")
    ]
    shapes = [[(variable.name, variable.shape) for variable in model.variables] for model in models]
    assert shapes[0] == shapes[1]
    starts = [model.get_layer("stem_conv").kernel.numpy().std() for model in models]
    np.testing.assert_allclose(starts, np.sqrt(2 / (49 * 64)), rtol=0.05)
    models[1].set_weights(models[0].get_weights())
    images = tf.random.normal([2, 32, 64, 3])
    np.testing.assert_allclose(models[0](images), models[1](images), atol=1e-4)


def test_it_computes_in_bfloat16_where_the_policy_says_so():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    layer = SpaceToDepthConv2D(4)
    assert layer(tf.ones([1, 4, 4, 3])).dtype == tf.bfloat16
    assert layer.kernel.dtype == tf.float32


def test_a_copy_made_from_its_configuration_is_the_same_layer():
    layer = SpaceToDepthConv2D(4, kernel_initializer="he_normal", name="stem_conv")
    copy = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer))
    assert copy.get_config() == layer.get_config()
    assert (copy.filters, copy.name) == (4, "stem_conv")
