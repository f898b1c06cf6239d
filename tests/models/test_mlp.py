"""The MLP: its size by hand, its layers in order, and its outputs' type."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.mlp import mlp


def layers_of(model):
    return [type(layer).__name__ for layer in model.layers]


@pytest.mark.parametrize(
    "arguments, parameters",
    [
        # 64 x 64 + 64, 64 x 64 + 64, 64 x 10 + 10
        ({}, 4160 + 4160 + 650),
        # 64 x 128 + 128, 128 x 64 + 64, 64 x 10 + 10: the recipe that ships
        ({"hidden": (128, 64)}, 8320 + 8256 + 650),
        # 64 x 10 + 10: logistic regression
        ({"hidden": ()}, 650),
        # A norm brings a bias of its own: 64 x 8, 8 + 8 scales and shifts, then 8 x 10 + 10
        ({"hidden": [8], "norm": "layer"}, 512 + 16 + 90),
        # and batch norm 8 + 8 statistics more
        ({"hidden": [8], "norm": "batch"}, 512 + 32 + 90),
        ({"hidden": [8], "norm": "sync_batch"}, 512 + 32 + 90),
        # Dropout and activations have none.
        ({"dropout": 0.5, "activation": "gelu"}, 4160 + 4160 + 650),
    ],
)
def test_parameters(arguments, parameters):
    model = mlp(input_shape=(8, 8, 1), num_classes=10, **arguments)
    assert model.count_params() == parameters
    assert model.output_shape == (None, 10)


def test_any_input_shape_is_flattened():
    assert mlp(input_shape=(3,), num_classes=2, hidden=()).count_params() == 3 * 2 + 2
    assert mlp(input_shape=[2, 3], num_classes=2, hidden=()).count_params() == 6 * 2 + 2


def test_each_hidden_layer_is_normalised_then_activated_then_thinned():
    model = mlp(input_shape=(4,), num_classes=2, hidden=(8, 8), norm="batch", dropout=0.1)
    block = ["Dense", "BatchNormalization", "Activation", "Dropout"]
    assert layers_of(model) == ["InputLayer", "Flatten", *block, *block, "Dense"]
    assert not model.get_layer("hidden_0").use_bias and model.get_layer("logits").use_bias


def test_without_dropout_there_is_no_random_layer():
    assert "Dropout" not in layers_of(mlp(input_shape=(4,), num_classes=2))


def test_the_outputs_are_logits_of_what_the_weights_say():
    model = mlp(input_shape=(4,), num_classes=3, hidden=(5,))
    x = np.random.RandomState(0).normal(size=[6, 4]).astype(np.float32)
    (kernel, bias), (last_kernel, last_bias) = (model.get_layer(name).get_weights() for name in ("hidden_0", "logits"))
    expected = np.maximum(x @ kernel + bias, 0) @ last_kernel + last_bias
    np.testing.assert_allclose(model(x), expected, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("norm", [None, "batch", "layer"])
def test_logits_and_variables_are_float32_under_any_policy(policy, norm):
    tf.keras.mixed_precision.set_global_policy(policy)
    model = mlp(input_shape=(4,), num_classes=3, hidden=(5,), norm=norm)
    assert model.get_layer("hidden_0").compute_dtype == policy[len("mixed_") :]
    assert model(np.zeros([2, 4], np.float32)).dtype == tf.float32
    assert {variable.dtype for variable in model.variables} == {tf.float32}


def test_synchronised_batch_norm_sees_all_replicas(runtimes):
    with runtimes(2).scope():
        model = mlp(input_shape=(1,), num_classes=1, hidden=(1,), norm="sync_batch")
    model.get_layer("hidden_0").set_weights([np.ones([1, 1])])
    x = tf.constant([[0.0], [0.0], [4.0], [4.0]])
    parts = iter(
        runtimes(2).strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors(x).unbatch().batch(4))
    )

    @tf.function
    def step():
        runtimes(2).strategy.run(lambda part: model(part, training=True), args=(next(parts),))

    step()
    # Momentum 0.99; the mean of all four is 2, those of the replicas alone would be 0 and 4.
    np.testing.assert_allclose(model.get_layer("norm_0").moving_mean.numpy(), [0.02], atol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"norm": "group"}, "norm must be one of None, batch, sync_batch, layer; it is 'group'"),
        ({"norm": ["batch"]}, r"norm must be one of None, batch, sync_batch, layer; it is \['batch'\]"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1; it is 1.0"),
        ({"dropout": -0.1}, "dropout must be a number of at least 0 and below 1; it is -0.1"),
        ({"dropout": "0.1"}, "dropout must be a number of at least 0 and below 1; it is '0.1'"),
        ({"dropout": None}, "dropout must be a number of at least 0 and below 1; it is None"),
        ({"dropout": False}, "dropout must be a number of at least 0 and below 1; it is False"),
        ({"hidden": 5}, r"hidden must be a list of widths, such as \(64, 64\); it is 5"),
        ({"hidden": "64"}, r"hidden must be a list of widths, such as \(64, 64\); it is '64'"),
        ({"hidden": (8, 0)}, r"widths must be integers of at least 1; hidden is \(8, 0\), num_classes is 10"),
        ({"hidden": [1.5]}, r"widths must be integers of at least 1; hidden is \(1.5,\)"),
        ({"hidden": [True]}, r"widths must be integers of at least 1; hidden is \(True,\)"),
        ({"num_classes": 0}, "widths must be integers of at least 1; .* num_classes is 0"),
        ({"num_classes": "ten"}, "widths must be integers of at least 1; .* num_classes is 'ten'"),
        ({"input_shape": 4}, r"input_shape must be a list of integers of at least 1, such as \(8, 8, 1\); it is 4"),
        ({"input_shape": (4, None)}, r"input_shape must be a list of integers .* it is \(4, None\)"),
        ({"activation": "rleu"}, "rleu"),
    ],
)
def test_what_makes_no_network_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        mlp(**{"input_shape": (4,), "num_classes": 10, **arguments})
