"""`TrainLoop(model).fit` in the place of `model.fit`."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.errors import UsageError
from tpuloop.loop import TrainLoop
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


def test_numbers_of_numpy_count_as_pythons(tmp_path):
    settings = LoopSettings(seed=np.int64(3), steps_per_loop=np.int32(2), save_every=np.int64(1))
    loop = TrainLoop(linear(), optimizer="sgd", loss="mse", workdir=str(tmp_path), settings=settings)
    loop.fit(X, Y, batch_size=np.int64(4), steps=np.int64(3), eval_data=(X, Y, None), eval_steps=np.int64(1))
    assert int(loop.step) == 3


def test_the_average_of_an_optimizer_is_put_in_place_at_the_end():
    def trained(fit):
        model = linear()
        optimizer = tf.keras.optimizers.experimental.SGD(0.1, use_ema=True, ema_momentum=0.9)
        model.compile(optimizer, "mse")
        fit(model, tf.data.Dataset.from_tensor_slices((X, Y)).batch(4))
        return model.get_weights()

    ours = trained(lambda model, data: TrainLoop(model).fit(data, epochs=3))
    keras = trained(lambda model, data: model.fit(data, epochs=3, verbose=0))
    for got, want in zip(ours, keras):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_what_is_no_model_is_named():
    with pytest.raises(UsageError, match="TrainLoop takes a Keras model; it was given 3"):
        TrainLoop(3)


class Batches(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ended = []

    def on_train_batch_end(self, batch, logs=None):
        self.ended.append(batch)


def batch_callbacks():
    own, seen = Batches(), []
    yield own, own.ended
    yield tf.keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(batch)), seen


@pytest.mark.parametrize(
    ("steps_per_loop", "ended"), [("auto", [0, 1, 0, 1]), (1, [0, 1, 0, 1]), (2, [1, 1])], ids=["auto", "1", "2"]
)
def test_a_callback_of_the_users_sees_every_batch(caplog, steps_per_loop, ended):
    for callback, seen in batch_callbacks():
        caplog.clear()
        settings = LoopSettings(steps_per_loop=steps_per_loop)
        TrainLoop(linear(), optimizer="sgd", loss="mse", settings=settings).fit(
            X, Y, batch_size=4, epochs=2, callbacks=[callback]
        )
        assert seen == ended
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == (steps_per_loop != 1)
        assert all(f"{type(callback).__name__} has hooks for every batch" in message for message in told)


def test_callbacks_of_keras_do_not_slow_the_loop_down(caplog, tmp_path):
    from tpuloop.callbacks.tensorboard import TensorBoardScalars

    stock = [
        tf.keras.callbacks.EarlyStopping(),
        tf.keras.callbacks.TerminateOnNaN(),
        tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "m"), save_weights_only=True),
        tf.keras.callbacks.TensorBoard(str(tmp_path / "t")),
        tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
        TensorBoardScalars(directory=str(tmp_path / "e")),
    ]
    TrainLoop(linear(), optimizer="sgd", loss="mse").fit(X, Y, batch_size=4, callbacks=stock)
    assert "has hooks for every batch" not in caplog.text
