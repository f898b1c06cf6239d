"""A run that was interrupted goes on as if it had not been, to the bit."""

import json
import logging
import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.commit import CheckpointError, committed_steps
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers

X = np.random.default_rng(0).normal(size=[20, 3]).astype(np.float32)
Y = (np.arange(20) % 3).astype(np.int64)


class Losses(Callback):
    """The loss of every step, by its number."""

    def __init__(self):
        super().__init__()
        self.by_step = {}

    def on_steps_end(self, trace):
        self.by_step.update(zip(trace.steps.tolist(), trace.values("loss").tolist()))


def process(runtime, *, workdir=None, start=0, kind=TrainLoop, units=6, optimizer="adam", norm=False, **settings):
    """What a new process begins with: a fresh model, and other global seeds than the process before it."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(start)
    with runtime.scope():
        model = tf.keras.Sequential([tf.keras.Input([3]), layers.Dense(units, activation="relu"), layers.Dropout(0.5)])
        if norm:
            model.add(layers.BatchNormalization())
        model.add(layers.Dense(3))
        model.compile(
            optimizer() if callable(optimizer) else optimizer,
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return kind(model, runtime=runtime, workdir=workdir and str(workdir), settings=LoopSettings(**settings))


def weights_of(loop):
    return [variable.numpy() for variable in [*loop.model.weights, *loop.model.optimizer.weights]]


def trained(loop):
    return [variable.numpy() for variable in loop.model.trainable_variables]


def assert_same_bits(found, expected):
    assert len(found) == len(expected)
    for got, want in zip(found, expected):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_restart_at_step_three_repeats_the_rest_to_the_bit(runtimes, tmp_path, replicas):
    norm = replicas == 1  # Moving statistics are saved as the mean over the replicas, see the next test.
    whole = process(runtimes(replicas), norm=norm)
    losses = Losses()
    whole.fit((X, Y), batch_size=4, steps=6, callbacks=[losses])  # 5 steps an epoch.

    process(runtimes(replicas), norm=norm, workdir=tmp_path).fit((X, Y), batch_size=4, steps=3)
    resumed = process(runtimes(replicas), norm=norm, workdir=tmp_path, start=5)
    after = Losses()
    history = resumed.fit((X, Y), batch_size=4, steps=6, callbacks=[after])
    assert after.by_step == {step: losses.by_step[step] for step in (4, 5, 6)}
    assert_same_bits(weights_of(resumed), weights_of(whole))
    assert history.epoch == [0, 1]


@pytest.mark.slow
def test_moving_statistics_of_two_replicas_come_back_but_for_a_rounding(runtimes, tmp_path):
    whole = process(runtimes(2), norm=True)
    whole.fit((X, Y), batch_size=4, steps=6)
    process(runtimes(2), norm=True, workdir=tmp_path).fit((X, Y), batch_size=4, steps=3)
    resumed = process(runtimes(2), norm=True, workdir=tmp_path)
    resumed.fit((X, Y), batch_size=4, steps=6)
    assert_same_bits(trained(resumed), trained(whole))
    for got, want in zip(weights_of(resumed), weights_of(whole)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_twice_and_another_seed_another(runtimes):
    runs = []
    for seed in (1, 1, 2):
        loop = process(runtimes(2), seed=seed)
        losses = Losses()
        loop.fit((X, Y), batch_size=4, steps=4, callbacks=[losses])
        runs.append((losses.by_step, weights_of(loop)))
    assert runs[0][0] == runs[1][0]
    assert_same_bits(runs[0][1], runs[1][1])
    assert all(runs[0][0][step] != runs[2][0][step] for step in (1, 2, 3, 4))


@pytest.mark.slow
def test_a_run_may_go_on_with_another_number_of_replicas(runtimes, tmp_path):
    class NoDropout(TrainLoop):
        def forward_loss(self, batch, *, training):
            return super().forward_loss(batch, training=False)

    whole = process(runtimes(1), kind=NoDropout)
    whole.fit((X, Y), batch_size=4, steps=6)
    process(runtimes(1), workdir=tmp_path, kind=NoDropout).fit((X, Y), batch_size=4, steps=3)
    resumed = process(runtimes(2), workdir=tmp_path, kind=NoDropout)
    resumed.fit((X, Y), batch_size=4, steps=6)
    for got, want in zip(resumed.model.get_weights(), whole.model.get_weights()):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


OPTIMIZERS = {
    "momentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "experimental": lambda: tf.keras.optimizers.experimental.AdamW(0.01),
    "schedule": lambda: tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_state_comes_back_and_nothing_is_left_over(runtimes, tmp_path, caplog, name):
    whole = process(runtimes(1), optimizer=OPTIMIZERS[name])
    whole.fit((X, Y), batch_size=4, steps=4)
    with caplog.at_level(logging.WARNING, "tpuloop"):
        process(runtimes(1), optimizer=OPTIMIZERS[name], workdir=tmp_path).fit((X, Y), batch_size=4, steps=2)
        resumed = process(runtimes(1), optimizer=OPTIMIZERS[name], workdir=tmp_path, start=3)
        resumed.fit((X, Y), batch_size=4, steps=4)
    assert_same_bits(resumed.model.get_weights(), whole.model.get_weights())
    assert not caplog.records


def test_the_loss_scale_comes_back(runtimes, tmp_path, caplog):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    x = X.copy()
    x[1] = 1e30  # Overflows float16 in the first step, which halves the scale.
    data = tf.data.Dataset.from_tensor_slices((x, Y)).batch(4)

    def scale_of(loop):
        return float(loop.optimizer.loss_scale), int(loop.optimizer.dynamic_counter.numpy())

    whole = process(runtimes(1))
    whole.fit(data, steps=4)
    with caplog.at_level(logging.ERROR, "tpuloop"):
        first = process(runtimes(1), workdir=tmp_path)
        first.fit(data, steps=1)
        assert scale_of(first) == (2.0**14, 0)
        resumed = process(runtimes(1), workdir=tmp_path)
        resumed.fit(data, steps=4)
    assert scale_of(resumed) == scale_of(whole)
    assert scale_of(whole)[0] < 2.0**15
    assert_same_bits(trained(resumed), trained(whole))


def test_a_finished_run_does_nothing(runtimes, tmp_path, caplog):
    process(runtimes(1), workdir=tmp_path).fit((X, Y), batch_size=4, steps=5)
    called = []
    callback = tf.keras.callbacks.LambdaCallback(on_train_begin=lambda logs: called.append("begin"))
    again = process(runtimes(1), workdir=tmp_path)
    with caplog.at_level(logging.INFO, "tpuloop"):
        history = again.fit((X, Y), batch_size=4, steps=5, callbacks=[callback])
    assert "nothing to do: the run has ended at step 5" in caplog.text
    assert not called
    assert (history.epoch, history.history) == ([], {})
    assert history is again.model.history
    assert committed_steps(str(tmp_path / "checkpoints")) == [5]


def test_saves_at_multiples_and_at_the_end_and_keeps_the_newest(runtimes, tmp_path):
    loop = process(runtimes(1), workdir=tmp_path, save_every=3, keep=2, steps_per_loop=100)
    seen = []

    class Watch(Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(committed_steps(str(tmp_path / "checkpoints")))

    loop.fit((X, Y), batch_size=4, steps=11, steps_per_epoch=11, callbacks=[Watch()])
    assert seen == [[], [3], [3, 6], [6, 9]]
    assert committed_steps(str(tmp_path / "checkpoints")) == [9, 11]
    record = json.loads((tmp_path / "checkpoints" / "step-00000009" / "COMMIT.json").read_text())
    assert (record["step"], record["seed"], record["replicas"]) == (9, 0, 1)
    assert record["versions"]["tensorflow"] == tf.__version__


def test_without_a_workdir_nothing_is_written(runtimes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process(runtimes(1), save_every=1).fit((X, Y), batch_size=4, steps=2)
    assert os.listdir(tmp_path) == []


class StopAt(Callback):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def next_boundary(self, step):
        return self.step

    def on_steps_end(self, trace):
        if trace.last_step == self.step:
            self.loop.request_stop()


def test_a_stop_saves_and_the_run_goes_on_there(runtimes, tmp_path):
    whole = process(runtimes(1))
    whole.fit((X, Y), batch_size=4, steps=12)
    loop = process(runtimes(1), workdir=tmp_path, steps_per_loop=100)
    history = loop.fit((X, Y), batch_size=4, steps=12, callbacks=[StopAt(7)])
    assert loop.stop_requested
    assert history.epoch == [0]  # Five steps an epoch; the second was cut short, and does not count yet.
    assert committed_steps(str(tmp_path / "checkpoints")) == [7]
    resumed = process(runtimes(1), workdir=tmp_path, start=9)
    assert resumed.fit((X, Y), batch_size=4, steps=12).epoch == [1, 2]
    assert not resumed.stop_requested
    assert_same_bits(weights_of(resumed), weights_of(whole))


def test_a_stop_before_fit_ends_it_before_the_first_step(runtimes, tmp_path):
    loop = process(runtimes(1), workdir=tmp_path)
    loop.request_stop()
    loop.fit((X, Y), batch_size=4, steps=5)
    assert int(loop.step) == 0
    assert loop.stop_requested
    loop.fit((X, Y), batch_size=4, steps=5)
    assert int(loop.step) == 5
    assert not loop.stop_requested


def test_a_damaged_newest_checkpoint_costs_the_steps_since_the_one_before(runtimes, tmp_path, caplog):
    whole = process(runtimes(1))
    whole.fit((X, Y), batch_size=4, steps=8)
    process(runtimes(1), workdir=tmp_path, save_every=2).fit((X, Y), batch_size=4, steps=6)
    os.truncate(tmp_path / "checkpoints" / "step-00000006" / "state.index", 10)
    resumed = process(runtimes(1), workdir=tmp_path, save_every=2)
    losses = Losses()
    resumed.fit((X, Y), batch_size=4, steps=8, callbacks=[losses])
    assert sorted(losses.by_step) == [5, 6, 7, 8]
    assert "passing over a damaged checkpoint" in caplog.text
    assert_same_bits(weights_of(resumed), weights_of(whole))
    assert committed_steps(str(tmp_path / "checkpoints")) == [4, 6, 8]
    # The damaged one was written again when the run came past.
    assert process(runtimes(1), workdir=tmp_path).checkpoints().restore()["step"] == 8


def test_a_checkpoint_of_another_model_is_refused(runtimes, tmp_path):
    process(runtimes(1), workdir=tmp_path).fit((X, Y), batch_size=4, steps=1)
    with pytest.raises(CheckpointError, match=r"step-00000001 does not fit this model: .*shape"):
        process(runtimes(1), workdir=tmp_path, units=9).fit((X, Y), batch_size=4, steps=2)
    # And nothing was overwritten.
    process(runtimes(1), workdir=tmp_path).fit((X, Y), batch_size=4, steps=2)


def test_only_damaged_checkpoints_are_an_error(runtimes, tmp_path):
    process(runtimes(1), workdir=tmp_path).fit((X, Y), batch_size=4, steps=1)
    os.remove(tmp_path / "checkpoints" / "step-00000001" / "state.index")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        process(runtimes(1), workdir=tmp_path).fit((X, Y), batch_size=4, steps=2)


def dataset(*, known):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    return data if known else data.filter(lambda *batch: True)


@pytest.mark.parametrize("known, stop", [(True, 8), (False, 3), (False, 5), (False, 8), (False, 10)])
def test_a_dataset_is_passed_over_to_where_the_run_stands(runtimes, tmp_path, known, stop):
    whole = process(runtimes(1))
    expected = whole.fit(dataset(known=known), epochs=3).history["loss"]

    loop = process(runtimes(1), workdir=tmp_path)
    loop.fit(dataset(known=known), epochs=3, callbacks=[StopAt(stop)])
    assert int(loop.step) == stop
    resumed = process(runtimes(1), workdir=tmp_path, start=4)
    history = resumed.fit(dataset(known=known), epochs=3)
    assert int(resumed.step) == 15
    assert history.epoch[-1] == 2
    assert history.history["loss"][-1] == expected[-1]
    assert_same_bits(weights_of(resumed), weights_of(whole))
    again = process(runtimes(1), workdir=tmp_path)
    assert again.fit(dataset(known=known), epochs=3).epoch == []
    assert int(again.step) == 15


def test_data_of_unknown_length_in_two_fits_of_one_loop(runtimes):
    whole = process(runtimes(1))
    expected = whole.fit(dataset(known=False), epochs=3).history["loss"]
    loop = process(runtimes(1))
    first = loop.fit(dataset(known=False), epochs=1)
    second = loop.fit(dataset(known=False), epochs=3)
    assert second.epoch == [1, 2]
    assert first.history["loss"] + second.history["loss"] == expected
    assert loop.fit(dataset(known=False), epochs=3).epoch == []


@pytest.mark.parametrize("save_every", [None, 5])
@pytest.mark.parametrize("known", [True, False])
def test_a_run_that_a_callback_ended_has_ended(runtimes, tmp_path, known, save_every):
    def stopping():
        return tf.keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", epoch == 1)
        )

    loop = process(runtimes(1), workdir=tmp_path, save_every=save_every)
    model = loop.model
    loop.fit(dataset(known=known), epochs=5, callbacks=[stopping()])
    assert int(loop.step) == 10
    again = process(runtimes(1), workdir=tmp_path, save_every=save_every)
    model = again.model
    assert again.fit(dataset(known=known), epochs=5, callbacks=[stopping()]).epoch == []
    assert int(again.step) == 10
    # Another target is another run.
    more = process(runtimes(1), workdir=tmp_path, save_every=save_every)
    assert more.fit(dataset(known=known), epochs=6).epoch == [2, 3, 4, 5]


@pytest.mark.parametrize("known", [True, False])
def test_a_run_whose_data_ended_has_ended(runtimes, tmp_path, known):
    loop = process(runtimes(1), workdir=tmp_path, save_every=5)
    loop.fit(dataset(known=known), steps=100)
    again = process(runtimes(1), workdir=tmp_path, save_every=5)
    assert again.fit(dataset(known=known), steps=100).epoch == []
    assert int(again.step) == 5


def test_eager_host_loop_saves_for_the_graph_loop(runtimes, tmp_path):
    whole = process(runtimes(1))
    whole.fit((X, Y), batch_size=4, steps=4)
    process(runtimes(1), workdir=tmp_path, loop="host").fit((X, Y), batch_size=4, steps=2)
    resumed = process(runtimes(1), workdir=tmp_path)
    resumed.fit((X, Y), batch_size=4, steps=4)
    for got, want in zip(weights_of(resumed), weights_of(whole)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class Evaluations(Callback):
    """The steps at which an evaluation or an epoch ended; may ask to stop at one, or in the evaluation after it."""

    def __init__(self, *, stop=None, in_evaluation=False):
        super().__init__()
        self._stop, self._in_evaluation = stop, in_evaluation
        self.evaluated, self.epochs = [], []

    def next_boundary(self, step):
        return self._stop if self._stop is not None and self._stop > step else None

    def on_train_batch_end(self, batch, logs=None):
        if self._now() and not self._in_evaluation:
            self.loop.request_stop()

    def on_test_begin(self, logs=None):
        if self._now() and self._in_evaluation:
            self.loop.request_stop()

    def on_test_end(self, logs=None):
        self.evaluated.append(int(self.loop.step.numpy()))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, int(self.loop.step.numpy())))

    def _now(self):
        return int(self.loop.step.numpy()) == self._stop


# 20 examples in batches of 5: an epoch is 4 steps. 10 steps end in the middle of the third.
@pytest.mark.parametrize("in_evaluation", [False, True])
@pytest.mark.parametrize(
    "stop, eval_every, evaluated",
    [(3, 3, [3, 6, 9, 10]), (4, None, [4, 8, 10]), (4, 4, [4, 8, 10]), (10, 3, [3, 6, 9, 10]), (10, None, [4, 8, 10])],
)
def test_what_was_due_at_the_step_of_a_stop_happens_once(
    runtimes, tmp_path, stop, eval_every, evaluated, in_evaluation
):
    def attempt(start, watcher):
        loop = process(runtimes(1), workdir=tmp_path, start=start, steps_per_loop=4)
        loop.fit(X, Y, batch_size=5, steps=10, eval_data=(X, Y), eval_every=eval_every, callbacks=[watcher])
        return loop

    first, second, third = Evaluations(stop=stop, in_evaluation=in_evaluation), Evaluations(), Evaluations()
    assert attempt(0, first).stop_requested
    assert stop not in first.evaluated
    attempt(1, second)
    assert first.evaluated + second.evaluated == evaluated
    assert first.epochs + second.epochs == [(0, 4), (1, 8), (2, 10)]
    attempt(2, third)
    assert third.evaluated == third.epochs == []
