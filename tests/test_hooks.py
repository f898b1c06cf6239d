"""The callbacks of a run: order, shared logs, steps they name, and how they are closed after errors."""

import logging
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.hooks import Callback, Hooks
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X, Y = np.ones([20, 2], np.float32), np.ones([20, 1], np.float32)


def data():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2)


def loop_of(**settings):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    return TrainLoop(model, settings=LoopSettings(**settings))


class Closing(Callback):
    """Tells when it is closed, and may fail there."""

    def __init__(self, name, closed, fails=False):
        super().__init__()
        self.name, self.closed, self.fails = name, closed, fails

    def close(self):
        self.closed.append(self.name)
        if self.fails:
            raise RuntimeError(f"{self.name} cannot close")


def test_error_of_the_loop_is_the_one_raised_and_all_are_closed(caplog):
    closed = []

    class Breaks(Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError("the real one")

    callbacks = [
        Closing("first", closed, fails=True),
        Breaks(),
        Closing("second", closed, fails=True),
        Closing("third", closed),
    ]
    with pytest.raises(KeyError, match="the real one"):
        loop_of().fit(data(), callbacks=callbacks)
    assert closed == ["first", "second", "third"]
    assert "Closing failed while closing: first cannot close" in caplog.text
    assert "Closing failed while closing: second cannot close" in caplog.text


def test_error_of_a_step_is_the_one_raised(caplog):
    closed = []

    class Breaks(TrainLoop):
        def train_step(self, batch):
            tf.debugging.assert_less(batch[0], 0.5, message="a step that fails")
            return super().train_step(batch)

    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    with pytest.raises(tf.errors.InvalidArgumentError, match="a step that fails"):
        Breaks(model).fit(data(), callbacks=[Closing("first", closed, fails=True), Closing("second", closed)])
    assert closed == ["first", "second"]


def test_without_an_error_the_first_that_cannot_close_is_raised_after_all_are_closed():
    closed = []
    callbacks = [Closing(name, closed, fails=name != "first") for name in ("first", "second", "third")]
    with pytest.raises(RuntimeError, match="second cannot close"):
        loop_of().fit(data(), callbacks=callbacks)
    assert closed == ["first", "second", "third"]


def test_interrupt_closes_as_well():
    closed = []

    class Interrupts(Callback):
        def on_train_batch_begin(self, batch, logs=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop_of().fit(data(), callbacks=[Interrupts(), Closing("one", closed)])
    assert closed == ["one"]


def test_callbacks_share_one_logs_dict_in_their_order():
    seen = []

    class Adds(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["added"] = epoch + 0.5

        def on_train_batch_end(self, batch, logs=None):
            logs["batch_added"] = 1.0

    class Sees(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(dict(logs))

    history = loop_of(steps_per_loop=5).fit(data(), epochs=2, callbacks=[Adds(), Sees()])
    assert history.history["added"] == [0.5, 1.5]
    assert [sorted(logs) for logs in seen] == [["batch_added", "loss"]] * 4


def test_logs_are_plain_floats_of_the_global_batch(runtimes):
    types = set()

    class Sees(Callback):
        def on_train_batch_end(self, batch, logs=None):
            types.update(type(value) for value in logs.values())

        def on_epoch_end(self, epoch, logs=None):
            types.update(type(value) for value in logs.values())

        def on_test_batch_end(self, batch, logs=None):
            types.update(type(value) for value in logs.values())

        def on_test_end(self, logs=None):
            types.update(type(value) for value in logs.values())

        def on_steps_end(self, trace):
            assert all(isinstance(values, np.ndarray) for values in trace.totals.values())

    with runtimes(2).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))])
        model.compile(tf.keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
    # The two replicas' halves of each batch have losses 1 and 9.
    y = np.tile([[1.0], [3.0]], [10, 1]).astype(np.float32)
    batches = tf.data.Dataset.from_tensor_slices((X, y)).batch(2)
    history = TrainLoop(model).fit(batches, eval_data=batches, callbacks=[Sees()]).history
    assert types == {float}
    assert history == {"loss": [5.0], "mae": [2.0], "val_loss": [5.0], "val_mae": [2.0]}


def test_params_and_the_loop_are_known_from_the_start():
    seen = {}

    class Starts(Callback):
        def on_train_begin(self, logs=None):
            seen.update(loop=self.loop, model=self.model, params=self.params)

    loop = loop_of()
    loop.fit(data(), epochs=3, callbacks=[Starts()])
    assert seen["loop"] is loop and seen["model"] is loop.model
    assert {name: seen["params"][name] for name in ("epochs", "steps", "verbose")} == {
        "epochs": 3,
        "steps": 10,
        "verbose": 0,
    }


def test_callbacks_of_ones_own_work_in_keras_too():
    seen = []

    class Own(Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((epoch, self.loop))

    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    model.fit(data(), epochs=2, callbacks=[Own()], verbose=0)
    assert seen == [(0, None), (1, None)]


def test_the_nearest_boundary_of_all_is_asked_before_every_call():
    asked = []

    class Every(Callback):
        def __init__(self, every):
            super().__init__()
            self.every = every

        def next_boundary(self, step):
            asked.append(step)
            return (step // self.every + 1) * self.every

    ends = []

    class Ends(Callback):
        def on_steps_end(self, trace):
            ends.append((trace.first_step, trace.last_step))

    loop_of(steps_per_loop=100).fit(data(), callbacks=[Every(4), Ends(), Every(6)])
    assert ends == [(1, 4), (5, 6), (7, 8), (9, 10)]
    assert sorted(set(asked)) == [0, 4, 6, 8]


def test_auto_makes_calls_longer():
    lengths = []

    class Lengths(Callback):
        def on_steps_end(self, trace):
            lengths.append(len(trace))

    loop_of(steps_per_loop="auto").fit(data().repeat(), steps=111, callbacks=[Lengths()])
    assert lengths[0] == 1
    assert lengths[1] > 1
    assert sum(lengths) == 111


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_stop_from_a_thread_ends_a_call_of_many_steps_with_all_counts_right(runtimes, replicas):
    with runtimes(replicas).scope():  # Where the loop's own variables must not be mirrored.
        loop = loop_of(steps_per_loop=10**8)
    seen = []

    class Counts(Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((batch, int(self.loop.step)))

        def on_train_end(self, logs=None):
            seen.append("end")

    def stop_soon():
        while int(loop.step) < 20:
            time.sleep(0.001)
        loop.request_stop()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    history = loop.fit(data().repeat(), steps=10**9, callbacks=[Counts()])
    thread.join()
    step = int(loop.step)
    assert 20 <= step < 10**9
    assert seen == [(step - 1, step), "end"]
    assert history.epoch == []
    assert int(loop.optimizer.iterations.numpy()) == step


def test_hooks_without_a_history_of_the_users_make_one():
    hooks = Hooks([])
    assert isinstance(hooks.history, tf.keras.callbacks.History)
    assert not hooks.halts_on_nonfinite


def test_nothing_is_logged_at_warning_level_in_an_ordinary_run(caplog):
    with caplog.at_level(logging.WARNING, "tpuloop"):
        loop_of().fit(data(), epochs=2, eval_data=data())
    assert not caplog.records
