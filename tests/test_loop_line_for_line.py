"""`TrainLoop(model).fit` in the place of `model.fit`."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.errors import UsageError
from tpuloop.loop import TrainLoop
from tpuloop.engine.mean import Mean
from tpuloop.settings import LoopSettings

X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
Y = 3 * X.sum(axis=1, keepdims=True)


def linear():
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones")(inputs))


def test_what_is_given_joins_what_the_model_was_compiled_with():
    model = linear()
    optimizer = tf.keras.optimizers.SGD(0.25)
    model.compile(optimizer, "mse", metrics=["mae"])
    TrainLoop(model, loss="mae")
    assert model.optimizer is optimizer
    history = TrainLoop(model, metrics=["mse"]).fit(X, Y, batch_size=4).history
    assert model.optimizer is optimizer
    assert sorted(history) == ["loss", "mse"]
    assert history["loss"] != history["mse"]


def test_options_of_compile_stay():
    model = linear()
    model.compile("sgd", "mse", run_eagerly=True)
    TrainLoop(model, metrics=["mae"])
    assert model.run_eagerly
    model.compile("sgd", "mse", jit_compile=True)
    TrainLoop(model, metrics=["mae"])
    assert model._jit_compile


@pytest.mark.parametrize("callbacks", [None, tf.keras.callbacks.LambdaCallback(), iter([])])
def test_callbacks_may_be_none_or_one(callbacks):
    loop = TrainLoop(linear(), optimizer="sgd", loss="mse")
    assert len(loop.fit(X, Y, callbacks=callbacks, verbose=0).history["loss"]) == 1
    loop.evaluate(X, Y, callbacks=None, verbose=0)
    loop.predict(X, verbose=0)


def test_verbose_names_what_prints():
    loop = TrainLoop(linear(), optimizer="sgd", loss="mse")
    for call in (loop.fit, loop.evaluate, loop.predict):
        with pytest.raises(UsageError, match=r"verbose=1: .*callbacks=\[tpuloop.Progress\(\)\]"):
            call(X, verbose=1)


def test_a_model_that_adds_its_loss_needs_no_other():
    def model():
        inputs = tf.keras.Input([2])
        outputs = tf.keras.layers.Dense(2, kernel_initializer="ones")(inputs)
        model = tf.keras.Model(inputs, outputs)
        model.add_loss(tf.reduce_mean(tf.square(outputs - inputs)))
        model.compile(tf.keras.optimizers.SGD(0.1))
        return model

    keras = model()
    expected = keras.fit(X, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
    ours = model()
    data = tf.data.Dataset.from_tensor_slices(X).batch(4)
    assert TrainLoop(ours).fit(data, epochs=2).history["loss"] == pytest.approx(expected, rel=1e-5)
    for got, want in zip(ours.get_weights(), keras.get_weights()):
        np.testing.assert_allclose(got, want, rtol=1e-5)


class OwnSteps(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        return {"loss": tf.constant(1.0)}

    def test_step(self, data):
        return {"loss": tf.constant(2.0)}


def test_a_forward_loss_goes_before_the_models_own_steps():
    class Loop(TrainLoop):
        def forward_loss(self, batch, *, training):
            return Mean(tf.fill([tf.shape(batch[0])[0]], 7.0) + 0.0 * tf.reduce_sum(self.model(batch[0])))

    assert TrainLoop(OwnSteps(), optimizer="sgd").fit(X, Y).history["loss"] == [1.0]
    loop = Loop(OwnSteps(), optimizer="sgd")
    assert loop.fit(X, Y).history["loss"] == [7.0]
    assert loop.evaluate(X, Y) == {"loss": 7.0}


def test_clipping_is_refused_where_the_models_own_step_would_not_do_it():
    with pytest.raises(UsageError, match=r"clip_norm=1.0 has no effect on the model's own train_step"):
        TrainLoop(OwnSteps(), optimizer="sgd", settings=LoopSettings(clip_norm=1.0))


def test_a_second_fit_that_has_nothing_to_do_says_so(caplog):
    loop = TrainLoop(linear(), optimizer="sgd", loss="mse")
    loop.fit(X, Y, epochs=2)
    loop.fit(X, Y, epochs=2)
    assert "nothing to do: the run has ended at step 2" in caplog.text
    assert caplog.records[-1].levelname == "WARNING"


def test_a_layer_made_outside_the_scope_is_named_before_anything_is_traced(runtimes):
    runtime = runtimes(2)

    class Gan(TrainLoop):
        def __init__(self, model, **arguments):
            super().__init__(model, **arguments)
            self.discriminator = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])], name="critic")

    with runtime.scope():
        model = linear()
    loop = Gan(model, optimizer="sgd", loss="mse", runtime=runtime)
    with pytest.raises(UsageError, match="of 'critic' was made outside the scope of the 2 replicas"):
        loop.fit(X, Y, batch_size=4)


def test_data_given_as_a_function_is_made_once_and_evaluated_in_batches_as_large_as_those_of_training():
    calls, sizes = [], []

    def data():
        calls.append(1)
        return X, Y

    class Loop(TrainLoop):
        def eval_step(self, batch):
            sizes.append(batch[0].shape[0])
            return super().eval_step(batch)

    loop = Loop(linear(), optimizer="sgd", loss="mse", settings=LoopSettings(loop="host"))
    loop.fit(data, batch_size=4, epochs=2, eval_data=data)
    assert len(calls) == 2
    assert sizes == [4, 4, 4, 4]
