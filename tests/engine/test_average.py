"""Moving averages of weights: numbers by hand, what uses them, and how they come back."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import CheckpointError
from tpuloop.engine.average import weights_to_average
from tpuloop.errors import UsageError
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers
slow = pytest.mark.slow

# One weight w; each step takes 0.5 * mean(x) = 1 from it, so it is 4, 3, 2, 1.
X, Y = np.full([12, 1], 2.0, np.float32), np.zeros([12], np.float32)
# The average: d = 2/11, 3/12 and 4/13, unless the decay is smaller.
FIRST = 2 / 11 * 4 + 9 / 11 * 3
SECOND = 3 / 12 * FIRST + 9 / 12 * 2
THIRD = 4 / 13 * SECOND + 9 / 13 * 1


class KerasStep(tf.keras.Model):
    """A model with a train_step of its own."""

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self(data[0]))
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        return {"loss": loss}


class OwnStep(TrainLoop):
    """A loop with a train_step of its own."""

    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = tf.squeeze(self.model(batch[0]), -1)
        self.minimize(loss, tape=tape, variables=self.model.trainable_variables)
        return {"loss": loss}


def output_itself(y_true, y_pred):
    return y_pred


def made(
    runtime,
    *,
    kind=TrainLoop,
    keras_model=tf.keras.Model,
    lazy=False,
    workdir=None,
    decay=0.9,
    jit_compile=False,
    **settings,
):
    with runtime.scope():
        dense = layers.Dense(1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(4.0))
        if lazy:
            model = tf.keras.Sequential([dense])
        else:
            inputs = tf.keras.Input([1])
            model = keras_model(inputs, dense(inputs))
        model.compile(tf.keras.optimizers.SGD(0.5), output_itself, jit_compile=jit_compile)
    workdir = workdir and str(workdir)
    return kind(model, runtime=runtime, workdir=workdir, settings=LoopSettings(ema_decay=decay, **settings))


def fitted(loop, steps=3, **arguments):
    return loop.fit((X, Y), batch_size=4, steps=steps, **arguments)


def averages(loop):
    return [float(average.numpy()) for average in loop.weight_averages.values]


def weight(loop):
    return float(loop.model.weights[0].numpy())


@pytest.mark.parametrize(("decay", "expected"), [(0.9, THIRD), (0.25, 0.25 * SECOND + 0.75 * 1)])
def test_three_steps_by_hand(decay, expected, runtimes):
    loop = made(runtimes(1), decay=decay)
    fitted(loop)
    assert averages(loop) == pytest.approx([expected], rel=1e-6)
    assert weight(loop) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": OwnStep},
        {"keras_model": KerasStep},
        {"accumulate_steps": 2},
        {"loop": "host"},
        pytest.param({"jit_compile": True}, marks=slow),
    ],
)
def test_after_every_kind_of_step(arguments, runtimes):
    loop = made(runtimes(1), **arguments)
    fitted(loop)
    assert averages(loop) == pytest.approx([THIRD], rel=1e-6)


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=slow)])
def test_the_same_on_every_replica_of_several(replicas, runtimes):
    loop = made(runtimes(replicas))
    fitted(loop)
    (average,) = loop.weight_averages.values
    parts = loop.runtime.strategy.experimental_local_results(average)
    assert len(parts) == replicas
    assert [float(part.numpy()) for part in parts] == pytest.approx([THIRD] * replicas, rel=1e-6)
    assert loop.evaluate((X, Y))["loss"] == pytest.approx(2 * THIRD)
    parts = loop.runtime.strategy.experimental_local_results(loop.model.weights[0])
    assert [float(part.numpy()) for part in parts] == [1.0] * replicas


class Seen(Callback):
    """The weight in a callback's hooks."""

    def __init__(self, loop):
        super().__init__()
        self._loop = loop
        self.epoch_ends, self.test_ends, self.inner = [], [], []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch_ends.append(weight(self._loop))

    def on_test_end(self, logs=None):
        self.test_ends.append(weight(self._loop))
        self.inner.append(self._loop.predict(X[:1]).item())


def test_evaluations_use_the_averages_and_training_goes_on_with_the_weights(runtimes):
    loop = made(runtimes(1))
    assert loop.evaluate((X, Y))["loss"] == pytest.approx(8.0)
    seen = Seen(loop)
    history = fitted(loop, steps_per_epoch=1, eval_data=(X, Y), callbacks=[seen])
    assert history.history["val_loss"] == pytest.approx([2 * FIRST, 2 * SECOND, 2 * THIRD])
    assert seen.epoch_ends == [3.0, 2.0, 1.0]
    assert seen.test_ends == pytest.approx([FIRST, SECOND, THIRD])
    assert seen.inner == pytest.approx([2 * FIRST, 2 * SECOND, 2 * THIRD])  # Nothing is exchanged twice.
    assert loop.evaluate((X, Y))["loss"] == pytest.approx(2 * THIRD)
    assert loop.predict(X[:1]).item() == pytest.approx(2 * THIRD)
    with loop.averaged_weights():
        assert weight(loop) == pytest.approx(THIRD)
    assert weight(loop) == 1.0
    assert averages(loop) == pytest.approx([THIRD])


def test_weights_loaded_before_the_first_step_are_what_the_averages_begin_with(runtimes):
    loop = made(runtimes(1))
    loop.evaluate((X, Y))
    loop.model.set_weights([np.array([[5.0]])])
    assert loop.evaluate((X, Y))["loss"] == pytest.approx(10.0)
    fitted(loop, steps=1)
    assert averages(loop) == pytest.approx([2 / 11 * 5 + 9 / 11 * 4])


class Fails(Callback):
    """Ends an evaluation in the given way."""

    def __init__(self, loop, end):
        super().__init__()
        self._loop, self._end = loop, end

    def on_test_begin(self, logs=None):
        if self._end == "stop":
            self._loop.request_stop()
        else:
            raise RuntimeError("boom")


@pytest.mark.parametrize("end", ["stop", "error"])
def test_weights_are_put_back_and_saved_where_an_evaluation_does_not_end(end, runtimes, tmp_path):
    loop = made(runtimes(1), workdir=tmp_path)
    arguments = {"steps": 2, "steps_per_epoch": 1, "eval_data": (X, Y), "callbacks": [Fails(loop, end)]}
    if end == "stop":
        fitted(loop, **arguments)
    else:
        with pytest.raises(RuntimeError, match="boom"):
            fitted(loop, **arguments)
    assert weight(loop) == 3.0 and averages(loop) == pytest.approx([FIRST])
    again = made(runtimes(1), workdir=tmp_path)
    assert again.restore() == 1
    assert weight(again) == 3.0 and averages(again) == pytest.approx([FIRST])


@pytest.mark.parametrize(
    ("replicas", "lazy"),
    [(1, True), *(pytest.param(*case, marks=slow) for case in [(1, False), (2, False), (2, True)])],
)
def test_a_resumed_run_has_the_averages_of_the_unbroken_one_to_the_bit(replicas, lazy, runtimes, tmp_path):
    whole = made(runtimes(replicas))
    fitted(whole)
    fitted(made(runtimes(replicas), lazy=lazy, workdir=tmp_path), steps=2)
    resumed = made(runtimes(replicas), lazy=lazy, workdir=tmp_path)
    fitted(resumed)
    assert averages(resumed) == averages(whole)
    restored = made(runtimes(replicas), lazy=lazy, workdir=tmp_path)
    assert restored.restore() == 3
    assert restored.predict(X[:1]).item() == pytest.approx(2 * THIRD)
    assert weight(restored) == 1.0


def test_no_averages_where_none_are_asked_for_and_a_checkpoint_without_them_does_not_fit(runtimes, tmp_path):
    plain = made(runtimes(1), decay=None, workdir=tmp_path)
    fitted(plain, eval_data=(X, Y))
    assert plain.weight_averages is None
    with plain.averaged_weights():
        assert weight(plain) == 1.0
    with pytest.raises(CheckpointError, match="loop/weight_averages/values/0 is not in the checkpoint"):
        fitted(made(runtimes(1), workdir=tmp_path), steps=4)


def test_moving_statistics_are_averaged_and_frozen_layers_keep_their_place(runtimes):
    def model():
        built = tf.keras.Sequential(
            [tf.keras.Input([1]), layers.Dense(2), layers.BatchNormalization(), layers.Dense(1)]
        )
        built.tracker = tf.keras.metrics.Mean(name="tracker")
        return built

    free, frozen = model(), model()
    frozen.layers[0].trainable = False
    names = [weight.name.split("/")[1] for weight in weights_to_average(free)]
    expected = ["kernel:0", "bias:0", "gamma:0", "beta:0", "moving_mean:0", "moving_variance:0", "kernel:0", "bias:0"]
    assert names == expected
    assert [weight.name.split("/")[1] for weight in weights_to_average(frozen)] == expected


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=slow)])
def test_the_average_of_moving_statistics_is_that_of_what_they_are_read_as(replicas, runtimes):
    runtime = runtimes(replicas)
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    with runtime.scope():
        model = tf.keras.Sequential([tf.keras.Input([1]), layers.BatchNormalization(momentum=0.5), layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.0), output_itself)
    loop = TrainLoop(model, runtime=runtime, settings=LoopSettings(ema_decay=0.9))
    x = np.arange(12, dtype=np.float32)[:, None]
    loop.fit((x, Y), batch_size=12, steps=1, epochs=None)
    mean = 11 / 4  # Half of the batch's, on each replica half of its part's.
    (moving,) = [weight for weight in model.weights if "moving_mean" in weight.name]
    assert float(moving.numpy()) == pytest.approx(mean, rel=1e-2)
    average = loop.weight_averages.values[weights_to_average(model).index(moving)]
    assert float(average.numpy()) == pytest.approx(9 / 11 * mean, rel=1e-2)
    before = [part.numpy() for part in runtime.strategy.experimental_local_results(moving)]
    with loop.averaged_weights():
        assert float(moving.numpy()) == pytest.approx(9 / 11 * mean, rel=1e-2)
    assert [part.numpy() for part in runtime.strategy.experimental_local_results(moving)] == before


@pytest.mark.parametrize("decay", [0, 1, 1.5, float("nan"), "0.9"])
def test_what_is_no_decay(decay):
    with pytest.raises(UsageError, match="ema_decay must be a number above 0 and below 1, or None; it is"):
        LoopSettings(ema_decay=decay)
