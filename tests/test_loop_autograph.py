"""Python's control flow over tensors in whatever users write, and no conversion of what they did not write."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api

from tpuloop.engine.mean import Mean
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)
Y = np.array([[2.0], [4.0], [6.0], [9.0]], np.float32)


def halved_while_large(value):
    """Halves until at most 1, by a loop over a tensor."""
    while tf.reduce_max(value) > 1.0:
        value = value / 2.0
    return value


class Layer(tf.keras.layers.Layer):
    def call(self, inputs):
        return halved_while_large(inputs)


class Loss(tf.keras.losses.Loss):
    def call(self, y_true, y_pred):
        if tf.reduce_sum(y_true) > 0.0:
            return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)
        return tf.reduce_mean(y_pred, axis=-1)


def loss_function(y_true, y_pred):
    if tf.reduce_sum(y_true) > 0.0:
        return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)
    return tf.reduce_mean(y_pred, axis=-1)


class Metric(tf.keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="largest")
        self.largest = self.add_weight("largest", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        largest = tf.reduce_max(y_true)
        if largest > self.largest:
            self.largest.assign(largest)

    def result(self):
        if self.largest > 8.0:
            return self.largest + 0.5
        return tf.constant(-1.0)


class Model(tf.keras.Model):
    """Linear in what is left of the features."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
        self.layer = Layer()

    def call(self, inputs):
        if tf.reduce_sum(inputs) > 0.0:
            return self.dense(self.layer(inputs))
        return self.dense(inputs)


class ModelWithSteps(Model):
    def train_step(self, data):
        return {"loss": halved_while_large(tf.reduce_sum(data[0]))}

    def test_step(self, data):
        return {"loss": halved_while_large(tf.reduce_sum(data[1]))}

    def predict_step(self, data):
        return halved_while_large(tf.keras.utils.unpack_x_y_sample_weight(data)[0])


class LoopWithSteps(TrainLoop):
    def train_step(self, batch):
        return {"loss": Mean(halved_while_large(batch[0]))}

    def eval_step(self, batch):
        return {"loss": Mean(halved_while_large(batch[1]))}

    def predict_step(self, batch):
        return halved_while_large(batch[0])


class LoopWithLoss(TrainLoop):
    def forward_loss(self, batch, *, training):
        x, y = batch
        return Mean(tf.square(y - self.model(halved_while_large(x))))


def linear():
    return tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=[1])])


@pytest.fixture(params=["graph", "host"])
def settings(request):
    return LoopSettings(loop=request.param)


@pytest.mark.parametrize("loss", [Loss(), loss_function])
def test_in_models_layers_losses_and_metrics(settings, loss):
    loop = TrainLoop(Model(), optimizer=tf.keras.optimizers.SGD(0.0), loss=loss, metrics=[Metric()], settings=settings)
    logs = loop.fit((X, Y), batch_size=4).history
    left = X / 4.0
    expected = np.mean(np.square(Y - left))
    assert logs["loss"] == [pytest.approx(expected)]
    assert logs["largest"] == [9.5]
    assert loop.evaluate((X, Y), batch_size=4) == {"loss": pytest.approx(expected), "largest": 9.5}
    np.testing.assert_allclose(loop.predict(X, batch_size=4), left)


def test_in_the_models_own_steps(settings):
    loop = TrainLoop(ModelWithSteps(), optimizer="sgd", settings=settings)
    assert loop.fit((X, Y), batch_size=4).history["loss"] == [10.0 / 16.0]
    assert loop.evaluate((X, Y), batch_size=4) == {"loss": 21.0 / 32.0}
    np.testing.assert_allclose(loop.predict(X, batch_size=4), X / 4.0)


def test_in_the_steps_of_a_subclass(settings):
    loop = LoopWithSteps(linear(), settings=settings)
    assert loop.fit((X, Y), batch_size=4).history["loss"] == [pytest.approx(2.5 / 4.0)]
    assert loop.evaluate((X, Y), batch_size=4) == {"loss": pytest.approx(5.25 / 16.0)}
    np.testing.assert_allclose(loop.predict((X,), batch_size=4), X / 4.0)


@pytest.mark.parametrize("replicas", [1, 2])
def test_in_a_forward_loss(runtimes, settings, replicas):
    runtime = runtimes(replicas)
    with runtime.scope():
        model = linear()
    loop = LoopWithLoss(model, optimizer=tf.keras.optimizers.SGD(0.0), settings=settings, runtime=runtime)
    # Of two replicas each halves its own half of the batch: 1, 2 once and 3, 4 twice.
    left = X / 4.0 if replicas == 1 else X / np.array([[2.0], [2.0], [4.0], [4.0]])
    expected = {"loss": pytest.approx(np.mean(np.square(Y - left)))}
    assert loop.evaluate((X, Y), batch_size=4) == expected


def test_in_steps_on_several_replicas(runtimes):
    runtime = runtimes(2)
    with runtime.scope():
        model, metric = Model(), Metric()
    loop = TrainLoop(model, optimizer=tf.keras.optimizers.SGD(0.0), loss=Loss(), metrics=[metric], runtime=runtime)
    logs = loop.evaluate((X, Y), batch_size=4)
    left = X / np.array([[2.0], [2.0], [4.0], [4.0]])
    assert logs["loss"] == pytest.approx(np.mean(np.square(Y - left)))


def test_nothing_of_the_loops_own_is_converted(monkeypatch):
    converted = []

    def recorded(entity, context):
        converted.append(entity)
        return convert(entity, context)

    convert = api._convert_actual
    monkeypatch.setattr(api, "_convert_actual", recorded)
    loop = TrainLoop(linear(), optimizer="adam", loss="mse", metrics=["mae"], settings=LoopSettings(clip_norm=1.0))
    loop.fit((X, Y), batch_size=4, epochs=2, eval_data=(X, Y))
    loop.predict(X, batch_size=3)
    assert [entity for entity in converted if entity.__module__.startswith("tpuloop")] == []
