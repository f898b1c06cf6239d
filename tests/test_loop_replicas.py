"""One optimizer step is the same on any number of replicas, and the same as Keras's own on one."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dense(optimizer="sgd", loss="mse", **compile_arguments):
    """A small regression model, with the same initial weights whenever it is called."""
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([layers.Dense(5, activation="tanh", input_shape=(3,)), layers.Dense(2)])
    model.compile(optimizer() if callable(optimizer) else optimizer, loss, **compile_arguments)
    return model


def step_of_loop(runtime, make, data, *, settings=None, **fit_arguments):
    """The weights after one step of the loop, and its history."""
    with runtime.scope():
        model = make()
    loop = TrainLoop(model, runtime=runtime, settings=settings)
    history = loop.fit(data, **fit_arguments)
    assert int(loop.step) == 1
    return model.get_weights(), history.history


def step_of_keras(make, data, **fit_arguments):
    """The weights after one step of Keras's on one device, and its history."""
    model = make()
    history = model.fit(data, verbose=0, **fit_arguments)
    return model.get_weights(), history.history


def assert_same_step(found, expected, tolerance=1e-6):
    weights, history = found
    expected_weights, expected_history = expected
    for got, want in zip(weights, expected_weights):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert history.keys() == expected_history.keys()
    for name in history:
        assert history[name] == pytest.approx(expected_history[name], rel=tolerance, abs=tolerance), name


def one_batch(*arrays, size=8):
    """A dataset of one global batch; its last dimension of batches is unknown, as `.batch` leaves it."""
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(size)


class AddsLoss(layers.Layer):
    """Adds a data-dependent loss, as a variational layer does."""

    def call(self, inputs):
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        return inputs


def everything():
    """Embedding, two regularisers, an added loss, adam, metrics with and without weights."""
    tf.keras.utils.set_random_seed(1)
    ids = tf.keras.Input([4], dtype=tf.int32, name="ids")
    hidden = layers.Embedding(7, 3)(ids)
    hidden = layers.Flatten()(hidden)
    hidden = layers.Dense(4, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.1))(hidden)
    hidden = AddsLoss()(hidden)
    outputs = layers.Dense(3, bias_regularizer=tf.keras.regularizers.L2(0.2), bias_initializer="ones")(hidden)
    model = tf.keras.Model(ids, outputs)
    model.compile(
        "adam",
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
    )
    return model


@pytest.mark.parametrize("replicas", [1, 2, *(pytest.param(count, marks=pytest.mark.slow) for count in (4, 8))])
def test_everything_at_once(runtimes, replicas):
    data = one_batch(
        np.random.default_rng(0).integers(0, 7, [8, 4]),
        np.arange(8) % 3,
        np.array([1, 2, 0, 3, 1, 0.5, 0.1, 4], np.float32),
    )
    arguments = {"class_weight": {0: 1.0, 1: 0.5, 2: 3.0}}
    expected = step_of_keras(everything, data, **arguments)
    assert_same_step(step_of_loop(runtimes(replicas), everything, data, **arguments), expected)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: tf.keras.optimizers.experimental.AdamW(0.01, weight_decay=0.1),
        lambda: tf.keras.optimizers.SGD(0.1, global_clipnorm=0.05),
        lambda: tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    ],
    ids=["momentum", "experimental-adamw", "global-clipnorm", "schedule"],
)
def test_optimizers(runtimes, optimizer):
    data = one_batch(numbers(8, 3), numbers(8, 2, seed=1))
    expected = step_of_keras(lambda: dense(optimizer), data)
    assert_same_step(step_of_loop(runtimes(2), lambda: dense(optimizer), data), expected)


def test_sample_weights_lying_unevenly_over_the_replicas(runtimes):
    data = one_batch(numbers(8, 3), numbers(8, 2, seed=1), np.array([0, 0, 0, 0, 1, 5, 0, 2], np.float32))
    expected = step_of_keras(dense, data)
    assert_same_step(step_of_loop(runtimes(2), dense, data), expected)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_batch_of_ten_on_four_replicas(runtimes, drop_remainder):
    data = tf.data.Dataset.from_tensor_slices((numbers(10, 3), numbers(10, 2, seed=1)))
    data = data.batch(10, drop_remainder=drop_remainder)
    expected = step_of_keras(lambda: dense(metrics=["mae"]), data)
    assert_same_step(step_of_loop(runtimes(4), lambda: dense(metrics=["mae"]), data), expected)


def test_replicas_without_an_example(runtimes):
    def make():
        model = dense(metrics=["mae"])
        model.add_loss(lambda: 0.1 * tf.reduce_sum(tf.square(model.layers[0].kernel)))
        return model

    data = one_batch(numbers(1, 3), numbers(1, 2, seed=1))
    expected = step_of_keras(make, data)
    assert_same_step(step_of_loop(runtimes(4), make, data), expected)


@pytest.mark.parametrize("reduction", ["sum", "sum_over_batch_size", "auto"])
def test_reductions_of_losses(runtimes, reduction):
    def make():
        return dense(loss=tf.keras.losses.MeanSquaredError(reduction=reduction))

    data = one_batch(numbers(6, 3), numbers(6, 2, seed=1), np.array([1, 2, 3, 0, 0, 1], np.float32))
    expected = step_of_keras(make, data)
    assert_same_step(step_of_loop(runtimes(2), make, data), expected)


def line(optimizer):
    """y = w x with w = 0, whose gradients are easy to write down."""
    model = tf.keras.Sequential([layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(2,))])
    model.compile(optimizer, "mse")
    return model


@pytest.mark.parametrize("replicas", [1, 2])
def test_clipping_comes_after_the_sum(runtimes, replicas):
    # d/dw of mean((w x - y)^2) at w = 0 is -mean(2 y x). The two examples, one a replica, give (-60, 0) and (0, -80),
    # their mean is (-30, -40) with norm 50; clipped to 5 it is (-3, -4). Clipped a replica each first, it would be
    # (-5, 0) and (0, -5), and the direction lost.
    x, y = np.eye(2, dtype=np.float32), np.array([[30], [40]], np.float32)
    weights, history = step_of_loop(
        runtimes(replicas),
        lambda: line(tf.keras.optimizers.SGD(1.0)),
        one_batch(x, y, size=2),
        settings=LoopSettings(clip_norm=5.0),
    )
    np.testing.assert_allclose(weights[0], [[3.0], [4.0]], rtol=1e-6)
    assert history["gradient_norm"] == pytest.approx([50.0])


def test_clipping_leaves_a_short_gradient_alone(runtimes):
    x, y = np.eye(2, dtype=np.float32), np.array([[3], [4]], np.float32)
    weights, history = step_of_loop(
        runtimes(2),
        lambda: line(tf.keras.optimizers.SGD(1.0)),
        one_batch(x, y, size=2),
        settings=LoopSettings(clip_norm=5.1),
    )
    np.testing.assert_allclose(weights[0], [[3.0], [4.0]], rtol=1e-6)
    assert history["gradient_norm"] == pytest.approx([5.0])


def embedding():
    """Rows of an embedding that both replicas use, so that its gradient is a sum of slices."""
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([layers.Embedding(6, 3, input_length=2), layers.Flatten(), layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    return model


@pytest.mark.parametrize("clip_norm", [None, 1e6])
def test_embedding(runtimes, clip_norm):
    data = one_batch(np.array([[0, 1], [1, 1], [1, 5], [0, 5]]), numbers(4, 1), size=4)
    expected = step_of_keras(embedding, data)
    settings = LoopSettings(clip_norm=clip_norm)
    weights, history = step_of_loop(runtimes(2), embedding, data, settings=settings)
    history.pop("gradient_norm", None)
    assert_same_step((weights, history), expected)


def test_variable_that_the_loss_does_not_reach_keeps_its_value(runtimes):
    def make():
        tf.keras.utils.set_random_seed(1)
        inputs = tf.keras.Input([3])
        used, unused = layers.Dense(1, name="used")(inputs), layers.Dense(1, name="unused")(inputs)
        model = tf.keras.Model(inputs, [used, unused])
        model.compile("sgd", {"used": "mse"})
        return model

    data = tf.data.Dataset.from_tensor_slices((numbers(8, 3), {"used": numbers(8, 1)})).batch(8)
    start = make().get_weights()
    weights, _ = step_of_loop(runtimes(2), make, data)
    assert not np.array_equal(weights[0], start[0])
    np.testing.assert_array_equal(weights[2], start[2])


def normalised(layer):
    def make():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,)), layer(), layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    return make


def test_synchronised_batch_norm_sees_the_global_batch(runtimes):
    data = one_batch(numbers(8, 3) + np.arange(8)[:, None].astype(np.float32), numbers(8, 1, seed=1))
    synchronised = normalised(tf.keras.layers.experimental.SyncBatchNormalization)
    expected = step_of_keras(normalised(layers.BatchNormalization), data)
    assert_same_step(step_of_loop(runtimes(2), synchronised, data), expected, tolerance=1e-5)
    plain, _ = step_of_loop(runtimes(2), normalised(layers.BatchNormalization), data)
    assert not np.allclose(plain[0], expected[0][0], rtol=1e-3)
