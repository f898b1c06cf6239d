"""A compiled loss as one value per example, whose mean is what Keras's own container gives."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.compiled import Targets, compiled_loss

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class PerElement(tf.keras.losses.Loss):
    """Gives a value per element, and leaves the mean to whoever asks."""

    def call(self, y_true, y_pred):
        return tf.abs(y_true - y_pred)


def model_with(loss, outputs=3):
    inputs = tf.keras.Input([4])
    model = tf.keras.Model(inputs, layers.Dense(outputs)(inputs))
    model.compile("sgd", loss)
    return model


LOSSES = {
    "string": ("mse", numbers(5, 3)),
    "function": (lambda y_true, y_pred: tf.abs(y_true - y_pred) ** 3, numbers(5, 3)),
    "object": (tf.keras.losses.Huber(0.3), numbers(5, 3)),
    "per element": (PerElement(), numbers(5, 3)),
    "sparse": (tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), np.array([0, 2, 1, 1, 0])),
    "sparse column": (
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        np.array([[0], [2], [1], [1], [0]]),
    ),
    "smoothed": (tf.keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), np.eye(5, 3)),
    "integers": ("mae", np.arange(15).reshape(5, 3)),
    "sum": (tf.keras.losses.MeanSquaredError(reduction="sum"), numbers(5, 3)),
    "cosine": (tf.keras.losses.CosineSimilarity(axis=-1), numbers(5, 3)),
}


@pytest.mark.parametrize("weights", [None, (5,), (5, 1)])
@pytest.mark.parametrize("name", LOSSES)
def test_mean_is_keras_loss(name, weights):
    loss, y = LOSSES[name]
    weights = None if weights is None else tf.constant(np.arange(5, dtype=np.float32).reshape(weights))
    x = numbers(5, 4, seed=1)
    model = model_with(loss)
    expected = float(model.compiled_loss(tf.constant(y), model(x), weights))
    mean, by_output = compiled_loss(model, Targets(tf.constant(y), model(x), weights))
    assert mean.values.shape == (5,)
    assert by_output == {}
    assert float(tf.reduce_mean(mean.values)) == pytest.approx(expected, rel=1e-6)


def test_labels_of_one_column_may_be_flat():
    x, y = numbers(5, 4), numbers(5)
    model = model_with("mse", outputs=1)
    mean, _ = compiled_loss(model, Targets(tf.constant(y), model(x), None))
    np.testing.assert_allclose(mean.values, (model(x).numpy()[:, 0] - y) ** 2, rtol=1e-6)


def test_weighted_values_whose_weight_is_zero_do_not_count_even_where_they_are_nan():
    model = model_with("mse", outputs=1)
    y = tf.constant([1.0, float("nan")])
    mean, _ = compiled_loss(model, Targets(y, tf.zeros([2, 1]), tf.constant([1.0, 0.0])))
    np.testing.assert_array_equal(mean.values, [1.0, 0.0])


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_means_over_an_output_are_made_in_float32(dtype):
    model = model_with("mae")
    mean, _ = compiled_loss(model, Targets(tf.zeros([2, 1000]), tf.ones([2, 1000], dtype), None))
    np.testing.assert_array_equal(mean.values, [1.0, 1.0])


def test_a_loss_that_gives_one_scalar_is_refused():
    model = model_with(lambda y_true, y_pred: tf.reduce_mean(tf.square(y_true - y_pred)))
    with pytest.raises(ValueError, match=r"gives one scalar for the whole batch.*one value per example"):
        compiled_loss(model, Targets(tf.zeros([5, 3]), tf.zeros([5, 3]), None))


def test_no_loss_is_named():
    model = model_with(None)
    with pytest.raises(ValueError, match=r"has no loss: compile it with one, give TrainLoop\(model, loss=...\)"):
        compiled_loss(model, Targets(tf.zeros([5, 3]), tf.zeros([5, 3]), None))


def test_no_labels_are_named():
    model = model_with("mse")
    with pytest.raises(
        ValueError, match=r"none of the outputs \['dense.*'\] of the model 'model.*' has a loss and a label"
    ):
        compiled_loss(model, Targets(None, model(numbers(5, 4)), None))
