"""How a run ends: what a stop leaves, what an error leaves, what a loss that is not finite leaves."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import committed_steps
from tpuloop.errors import StopRequested, UsageError
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.arange(8, dtype=np.float32)[:, np.newaxis]
Y = 2 * X


def make(rate=0.0, **arguments):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=[1])])
    return TrainLoop(model, optimizer=tf.keras.optimizers.SGD(rate), loss="mse", metrics=["mae"], **arguments)


class At(Callback):
    """Does something at the end of a step, or of an epoch."""

    def __init__(self, action, step=None, epoch=None, evaluation=False):
        super().__init__()
        self.action, self.step, self.epoch, self.evaluation = action, step, epoch, evaluation

    def next_boundary(self, step):
        return self.step if self.step is not None and self.step > step else None

    def on_steps_end(self, trace):
        if trace.last_step == self.step:
            self.action(self.loop)

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            self.action(self.loop)

    def on_test_begin(self, logs=None):
        if self.evaluation:
            self.evaluation = False
            self.action(self.loop)


class Recorded(Callback):
    """The logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.epochs = []

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, sorted(logs)))


def stop(loop):
    loop.request_stop()


def fail(loop):
    loop.request_stop()
    raise RuntimeError("on purpose")


ALL = ["loss", "mae", "val_loss", "val_mae"]


@pytest.mark.parametrize("workdir", [False, True])
@pytest.mark.parametrize("when", [{"step": 4}, {"evaluation": True}, {"step": 8}])
def test_an_epoch_that_a_stop_left_open_ends_whole_in_the_next_fit(tmp_path, workdir, when):
    arguments = {"workdir": str(tmp_path)} if workdir else {}
    loop, recorded = make(**arguments), Recorded()
    loop.fit(X, Y, batch_size=2, epochs=2, eval_data=(X, Y), callbacks=[recorded, At(stop, **when)])
    assert loop.stop_requested
    loop = make(**arguments) if workdir else loop
    loop.fit(X, Y, batch_size=2, epochs=2, eval_data=(X, Y), callbacks=[recorded])
    assert not loop.stop_requested
    assert recorded.epochs == [(0, ALL), (1, ALL)]
    assert int(loop.step) == 8


def test_the_logs_of_such_an_epoch_are_those_of_its_steps():
    loop = make()
    loop.fit(X, Y, batch_size=2, epochs=1, eval_data=(X, Y), callbacks=[At(stop, step=4)])
    history = loop.fit(X, Y, batch_size=2, epochs=1, eval_data=(X, Y)).history
    assert history["loss"] == history["val_loss"] == [pytest.approx(np.mean(np.square(X)))]


def test_a_request_ends_with_an_error(tmp_path):
    loop = make(workdir=str(tmp_path))
    with pytest.raises(RuntimeError, match="on purpose"):
        loop.fit(X, Y, batch_size=2, steps=8, callbacks=[At(fail, step=3)])
    assert not loop.stop_requested
    assert loop.evaluate(X, Y)["loss"] == pytest.approx(17.5)
    loop.fit(X, Y, batch_size=2, steps=8)
    assert int(loop.step) == 8


def test_a_request_while_all_is_done_does_not_make_it_a_stop():
    loop = make()
    loop.fit(
        X,
        Y,
        batch_size=2,
        epochs=1,
        callbacks=[tf.keras.callbacks.LambdaCallback(on_train_end=lambda logs: stop(loop))],
    )
    assert not loop.stop_requested
    assert loop.evaluate(X, Y)["loss"] == pytest.approx(17.5)


def test_a_request_ends_an_evaluation_of_its_own_and_no_more():
    loop = make()
    with pytest.raises(StopRequested):
        loop.evaluate(X, Y, callbacks=[At(lambda _: loop.request_stop(), evaluation=True)])
    assert loop.evaluate(X, Y)["loss"] == pytest.approx(17.5)


@pytest.mark.parametrize("kind", ["graph", "host"])
def test_a_run_whose_loss_is_not_finite_is_not_saved_and_has_not_finished(tmp_path, caplog, kind):
    settings = LoopSettings(loop=kind, save_every=1, steps_per_loop=3)
    loop = make(rate=1e6, workdir=str(tmp_path), settings=settings)
    loop.fit(X, Y, batch_size=2, steps=50, callbacks=[tf.keras.callbacks.TerminateOnNaN()])
    ended = int(loop.step)
    assert ended < 50
    assert loop.place.diverged
    assert f"the loss was not finite at step {ended}: this state is not saved" in caplog.text
    saved = committed_steps(os.path.join(tmp_path, "checkpoints"))
    assert saved[-1] == ended - 1
    again = make(rate=0.0, workdir=str(tmp_path), settings=settings)
    again.fit(X, Y, batch_size=2, steps=ended + 1)
    assert int(again.step) == ended + 1


def test_what_an_epochs_end_changes_after_a_save_at_its_step_is_saved(tmp_path):
    """A pass of unknown length, whose end shows only after the save at its last step."""

    def data():
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2).filter(lambda x, y: True)

    def zero(loop):
        loop.model.set_weights([np.zeros_like(value) for value in loop.model.get_weights()])

    settings = LoopSettings(save_every=2)
    loop = make(rate=0.01, workdir=str(tmp_path), settings=settings)
    loop.fit(data, epochs=1, callbacks=[At(zero, epoch=0)])
    again = make(workdir=str(tmp_path), settings=settings)
    again.fit(data, epochs=1)
    assert [float(np.sum(np.abs(value))) for value in again.model.get_weights()] == [0.0, 0.0]


def test_a_scalar_loss_is_refused_before_training_where_it_shall_be_evaluated():
    class Scalar(TrainLoop):
        def forward_loss(self, batch, *, training):
            x, y = batch
            return tf.reduce_mean(tf.square(y - self.model(x)))

    def scalar():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])
        return Scalar(model, optimizer="sgd")

    loop = scalar()
    with pytest.raises(UsageError, match="one scalar for the whole batch.*return one value per example"):
        loop.fit(X, Y, batch_size=2, steps=10_000, eval_data=(X, Y), eval_every=10_000)
    assert int(loop.step) == 0
    scalar().fit(X, Y, batch_size=2, epochs=1)


def test_a_request_that_ends_an_evaluation_made_by_a_callback_ends_the_run_as_well(tmp_path):
    def evaluate(loop):
        loop.request_stop()
        loop.evaluate(X, Y)

    loop = make(workdir=str(tmp_path))
    loop.fit(X, Y, batch_size=2, steps=8, callbacks=[At(evaluate, step=3)])
    assert loop.stop_requested
    assert int(loop.step) == 3
    assert committed_steps(os.path.join(tmp_path, "checkpoints")) == [3]
    loop = make(workdir=str(tmp_path))
    loop.fit(X, Y, batch_size=2, steps=8)
    assert (int(loop.step), loop.stop_requested) == (8, False)


def test_steps_before_a_faulty_evaluation_are_not_lost(tmp_path):
    def empty():
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2).filter(lambda x, y: False)

    loop = make(workdir=str(tmp_path))
    with pytest.raises(UsageError, match="the evaluation data is empty"):
        loop.fit(X, Y, batch_size=2, steps=8, eval_data=empty, eval_every=3)
    assert committed_steps(os.path.join(tmp_path, "checkpoints")) == [3]
    loop, recorded = make(workdir=str(tmp_path)), Recorded()
    history = loop.fit(X, Y, batch_size=2, steps=8, eval_data=(X, Y), eval_every=3, callbacks=[recorded])
    assert int(loop.step) == 8
    assert history.history["val_loss"] == [pytest.approx(17.5)] * 2


@pytest.mark.parametrize("steps_per_loop", [1, 5])
@pytest.mark.parametrize("kind", ["graph", "host"])
def test_a_step_that_fails_is_not_counted(kind, steps_per_loop):
    labels = np.array([0, 1, 0, 1, 7, 1, 0, 1])

    def classifier():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=[1])])
        settings = LoopSettings(loop=kind, steps_per_loop=steps_per_loop)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return TrainLoop(model, optimizer="adam", loss=loss, settings=settings)

    loop = classifier()
    with pytest.raises(tf.errors.InvalidArgumentError):
        loop.fit(tf.data.Dataset.from_tensor_slices((X, labels)).batch(1))
    assert int(loop.step) == int(loop.optimizer.iterations) == 4


def test_a_fit_inside_a_fit_is_refused():
    loop = make()
    with pytest.raises(UsageError, match="fit was called while fit of the same loop runs"):
        loop.fit(X, Y, batch_size=2, steps=8, callbacks=[At(lambda loop: loop.fit(X, Y, steps=20), step=2)])
    loop.fit(X, Y, batch_size=2, steps=8)
    assert int(loop.step) == 8


@pytest.mark.parametrize("built", [True, False])
def test_restore_brings_the_weights_without_training(tmp_path, built):
    def model():
        layer = tf.keras.layers.Dense(1, input_shape=[1]) if built else tf.keras.layers.Dense(1)
        return TrainLoop(tf.keras.Sequential([layer]), optimizer="adam", loss="mse", workdir=str(tmp_path))

    assert model().restore() is None
    trained = model()
    trained.fit(X, Y, batch_size=2, steps=5)
    fresh = model()
    assert fresh.restore() == 5
    assert fresh.evaluate(X, Y) == pytest.approx(trained.evaluate(X, Y))
    np.testing.assert_array_equal(fresh.predict(X), trained.predict(X))
