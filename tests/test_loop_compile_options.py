"""`Model.compile(run_eagerly=..., jit_compile=...)` hold in the loop as in `model.fit`."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.errors import UsageError
from tpuloop.loop import TrainLoop

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


class Counting(tf.keras.layers.Layer):
    """Counts how often Python runs it."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs


def model(*layers, **options):
    model = tf.keras.Sequential([tf.keras.Input([3]), *layers, tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("adam", "mse", metrics=["mae"], **options)
    return model


def test_run_eagerly_runs_every_step_from_python():
    calls = []
    for eagerly in (False, True):
        layer = Counting()
        loop = TrainLoop(model(layer, run_eagerly=eagerly))
        before = layer.calls
        loop.fit(X, Y, batch_size=4, epochs=2)
        loop.evaluate(X, Y, batch_size=4)
        loop.predict(X, batch_size=4)
        calls.append(layer.calls - before)
    assert calls == [3, 6 + 3 + 3]  # Once for each trace; once for each step.


def test_run_eagerly_may_be_changed_between_runs():
    layer = Counting()
    loop = TrainLoop(model(layer))
    loop.predict(X, batch_size=4)
    loop.model.run_eagerly = True
    before = layer.calls
    loop.predict(X, batch_size=4)
    assert layer.calls - before == 3


def test_jit_compile_gives_the_same_training():
    logs = []
    for jit_compile in (False, True):
        loop = TrainLoop(model(jit_compile=jit_compile))
        history = loop.fit(X, Y, batch_size=4, epochs=3).history
        logs.append({**history, "evaluated": loop.evaluate(X, Y, batch_size=5), "predicted": loop.predict(X)})
    for name in ("loss", "mae", "predicted"):
        np.testing.assert_allclose(logs[1][name], logs[0][name], rtol=1e-5)
    assert logs[1]["evaluated"] == pytest.approx(logs[0]["evaluated"], rel=1e-5)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_jit_compile_makes_an_xla_program(method):
    def through_strings(x):  # Which XLA does not have.
        return x * tf.cast(tf.strings.length(tf.as_string(x)) > 0, tf.float32)

    arguments = (X,) if method == "predict" else (X, Y)
    for jit_compile in (False, True):
        loop = TrainLoop(model(tf.keras.layers.Lambda(through_strings), jit_compile=jit_compile))
        if not jit_compile:
            getattr(loop, method)(*arguments)
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="unsupported operations|non-compilable"):
                getattr(loop, method)(*arguments)


def test_jit_compile_on_several_replicas_is_refused(runtimes):
    runtime = runtimes(2)
    with runtime.scope():
        loop = TrainLoop(model(jit_compile=True), runtime=runtime)
    with pytest.raises(UsageError, match="jit_compile=True.*2 replicas: compile it without"):
        loop.fit(X, Y, batch_size=4)
