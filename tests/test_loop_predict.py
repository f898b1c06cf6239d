"""`predict` gives the outputs of all examples in their order, as Keras does."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dense():
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [layers.Dense(4, activation="tanh", input_shape=(3,)), layers.Dropout(0.5), layers.Dense(2)]
    )
    model.compile("sgd", "mse")
    return model


X = numbers(9, 3)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("loop", ["graph", "host"])
def test_nine_examples_in_batches_of_four(runtimes, replicas, loop):
    data = tf.data.Dataset.from_tensor_slices(X).batch(4)
    with runtimes(replicas).scope():
        model = dense()
    found = TrainLoop(model, settings=LoopSettings(loop=loop)).predict(data)
    np.testing.assert_allclose(found, dense().predict(data, verbose=0), rtol=1e-6, atol=1e-7)


def test_arrays_and_data_with_labels():
    expected = dense().predict(X, verbose=0)
    loop = TrainLoop(dense())
    np.testing.assert_allclose(loop.predict(X), expected, rtol=1e-6)
    np.testing.assert_allclose(loop.predict(X, batch_size=2), expected, rtol=1e-6)
    np.testing.assert_allclose(loop.predict((X, np.zeros(9))), expected, rtol=1e-6)
    np.testing.assert_allclose(loop.predict(X, batch_size=2, steps=3), expected[:6], rtol=1e-6)


def test_inputs_and_outputs_by_name(runtimes):
    class Model(tf.keras.Model):
        def call(self, inputs, training=None):
            return {"sum": inputs["a"] + inputs["b"], "parts": [inputs["a"], tf.reduce_sum(inputs["b"], axis=-1)]}

    with runtimes(2).scope():
        loop = TrainLoop(Model())
    a, b = numbers(9, 3), numbers(9, 3, seed=1)
    found = loop.predict({"a": a, "b": b}, batch_size=4)
    np.testing.assert_array_equal(found["sum"], a + b)
    np.testing.assert_array_equal(found["parts"][0], a)
    np.testing.assert_allclose(found["parts"][1], b.sum(axis=-1), rtol=1e-6)


def test_a_subclassed_model_that_is_not_built():
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs)

    model = Model()
    found = TrainLoop(model).predict(X, batch_size=4)
    np.testing.assert_allclose(found, X @ model.dense.get_weights()[0], rtol=1e-5, atol=1e-6)


def test_steps_of_ones_own():
    class Argmax(TrainLoop):
        def predict_step(self, batch):
            return tf.argmax(self.model(batch, training=False), axis=-1)

    np.testing.assert_array_equal(Argmax(dense()).predict(X), dense().predict(X, verbose=0).argmax(axis=-1))

    class Doubled(tf.keras.Model):
        def predict_step(self, data):
            return 2 * self(data, training=False)

    inputs = tf.keras.Input([3])
    model = Doubled(inputs, layers.Dense(2)(inputs))
    np.testing.assert_allclose(TrainLoop(model).predict(X), model.predict(X, verbose=0), rtol=1e-6)


def test_empty_data():
    data = tf.data.Dataset.from_tensor_slices(X).batch(4)
    loop = TrainLoop(dense())
    for empty in (data.take(0), data.filter(lambda batch: False)):
        with pytest.raises(ValueError, match="the data is empty"):
            loop.predict(empty)
