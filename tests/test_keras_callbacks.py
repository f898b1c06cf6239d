"""Keras's own callbacks in the loop: the same effect at the same step, whatever the length of a compiled call."""

import csv
import os
import time

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers
keras_callbacks = tf.keras.callbacks


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def line(learning_rate=0.1, **compile_arguments):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([layers.Dense(1, input_shape=(2,))])
    model.compile(tf.keras.optimizers.SGD(learning_rate), "mse", **compile_arguments)
    return model


def batches(count, size=2):
    """Batches of examples y = x1 - x2, with a little noise."""
    x = numbers(count * size, 2)
    y = x[:, :1] - x[:, 1:] + 0.1 * numbers(count * size, 1, seed=1)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size)


HELD_OUT = tf.data.Dataset.from_tensor_slices((numbers(4, 2, seed=5), numbers(4, 1, seed=6))).batch(4)

any_length = pytest.mark.parametrize("steps_per_loop", [1, 5, 7, 100, "auto"])


class Recorder(keras_callbacks.Callback):
    """What each of Keras's hooks was called with, in order."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def _record(name, counted):
        if counted:
            return lambda self, number, logs=None: self.calls.append((name, number, sorted(logs or ())))
        return lambda self, logs=None: self.calls.append((name, sorted(logs or ())))

    on_train_begin, on_train_end = _record("train begins", False), _record("train ends", False)
    on_test_begin, on_test_end = _record("test begins", False), _record("test ends", False)
    on_epoch_begin, on_epoch_end = _record("epoch begins", True), _record("epoch ends", True)
    on_train_batch_begin, on_train_batch_end = _record("batch begins", True), _record("batch ends", True)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_numbering_is_that_of_steps_per_execution(steps):
    mine, keras = Recorder(), Recorder()
    line(metrics=["mae"], steps_per_execution=steps).fit(
        batches(6), epochs=2, validation_data=HELD_OUT, callbacks=[keras], verbose=0
    )
    loop = TrainLoop(line(metrics=["mae"]), settings=LoopSettings(steps_per_loop=steps))
    loop.fit(batches(6), epochs=2, validation_data=HELD_OUT, callbacks=[mine])
    assert mine.calls == keras.calls


@any_length
def test_everybody_acts_at_the_step_he_names(steps_per_loop, tmp_path):
    loop = TrainLoop(
        line(),
        workdir=str(tmp_path / "run"),
        settings=LoopSettings(steps_per_loop=steps_per_loop, save_every=12, keep=100),
    )
    log = []

    class Watch(Callback):
        def next_boundary(self, step):
            return next((named for named in (3, 29) if named > step), None)

        def on_steps_end(self, trace):
            log.append(("steps end", trace.last_step))

        def on_epoch_end(self, epoch, logs=None):
            log.append(("epoch ends", int(self.loop.step)))

        def on_test_begin(self, logs=None):
            log.append(("evaluation", int(self.loop.step)))

    path = str(tmp_path / "weights-{epoch}-{batch}.h5")
    loop.fit(
        batches(40),
        epochs=1,
        steps_per_epoch=40,
        eval_data=HELD_OUT,
        eval_every=9,
        callbacks=[Watch(), keras_callbacks.ModelCheckpoint(path, save_freq=16, save_weights_only=True)],
    )
    assert [step for name, step in log if name == "evaluation"] == [9, 18, 27, 36, 40]
    assert [step for name, step in log if name == "epoch ends"] == [40]
    ends = [step for name, step in log if name == "steps end"]
    assert set(ends) >= {3, 9, 12, 16, 18, 24, 27, 29, 32, 36, 40}
    assert sorted(os.listdir(tmp_path)) == ["run", "weights-1-16.h5", "weights-1-32.h5"]
    assert [int(name[5:]) for name in sorted(os.listdir(tmp_path / "run" / "checkpoints"))] == [12, 24, 36, 40]
    if isinstance(steps_per_loop, int):
        assert max(np.diff([0, *ends])) <= steps_per_loop


@pytest.mark.parametrize("steps_per_epoch", [10, 100])
def test_model_checkpoint_counts_over_epochs_and_from_where_a_run_goes_on(tmp_path, steps_per_epoch):
    def saves(loop, steps):
        seen = []
        checkpoint = keras_callbacks.ModelCheckpoint(str(tmp_path / "w.h5"), save_freq=16, save_weights_only=True)
        checkpoint._save_model = lambda epoch, batch, logs: seen.append(int(loop.step))
        loop.fit(batches(10).repeat(), steps=steps, steps_per_epoch=steps_per_epoch, callbacks=[checkpoint])
        return seen

    loop = TrainLoop(line(), settings=LoopSettings(steps_per_loop=100))
    assert saves(loop, 50) == [16, 32, 48]
    assert saves(loop, 100) == [64, 80, 96]


def test_model_checkpoint_keeps_the_best_only(tmp_path):
    def kept(fit):
        path = str(tmp_path / "best.h5")
        model = line(learning_rate=1.3)  # Too high: the loss rises and falls.
        history = fit(
            model,
            keras_callbacks.ModelCheckpoint(path, monitor="val_loss", save_best_only=True, save_weights_only=True),
        )
        model.load_weights(path)
        os.remove(path)
        return history.history["val_loss"], model.get_weights()[0]

    losses, weights = kept(
        lambda model, callback: TrainLoop(model).fit(batches(3), epochs=5, eval_data=HELD_OUT, callbacks=[callback])
    )
    expected_losses, expected = kept(
        lambda model, callback: model.fit(
            batches(3), epochs=5, validation_data=HELD_OUT, callbacks=[callback], verbose=0
        )
    )
    assert np.argmin(losses) != 4
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


@pytest.mark.slow
def test_early_stopping_plateau_and_csv_see_the_same_logs_as_in_keras(tmp_path):
    def run(fit, name):
        path = tmp_path / name
        callbacks = [
            keras_callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_delta=0.05),
            keras_callbacks.EarlyStopping(monitor="val_loss", patience=3, min_delta=0.05, restore_best_weights=True),
            keras_callbacks.CSVLogger(str(path)),
        ]
        model = line(metrics=["mae"])
        history = fit(model, callbacks)
        return history, model, list(csv.DictReader(path.open()))

    mine = run(
        lambda model, callbacks: TrainLoop(model).fit(
            batches(4), epochs=30, validation_data=HELD_OUT, callbacks=callbacks
        ),
        "mine.csv",
    )
    keras = run(
        lambda model, callbacks: model.fit(
            batches(4), epochs=30, validation_data=HELD_OUT, callbacks=callbacks, verbose=0
        ),
        "keras.csv",
    )
    history = mine[0].history
    assert len(history["loss"]) < 30
    assert history["lr"][-1] < history["lr"][0]
    assert history.keys() == keras[0].history.keys()
    for name, values in keras[0].history.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(mine[1].get_weights()[0], keras[1].get_weights()[0], rtol=1e-5)
    assert [list(row) for row in mine[2]] == [list(row) for row in keras[2]]
    assert "lr" in mine[2][0]
    for row, expected in zip(mine[2], keras[2]):
        assert {key: float(value) for key, value in row.items()} == pytest.approx(
            {key: float(value) for key, value in expected.items()}, rel=1e-5
        )


def test_learning_rate_scheduler():
    def run(fit):
        model = line()
        rates = keras_callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch else rate)
        return fit(model, [rates]).history, model.get_weights()[0]

    history, weights = run(lambda model, callbacks: TrainLoop(model).fit(batches(4), epochs=3, callbacks=callbacks))
    expected, expected_weights = run(
        lambda model, callbacks: model.fit(batches(4), epochs=3, callbacks=callbacks, verbose=0)
    )
    assert history["lr"] == pytest.approx([0.1, 0.05, 0.025])
    assert history["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)


@pytest.mark.parametrize("steps_per_loop", [1, 100])
@pytest.mark.parametrize("known", [True, False])
def test_terminate_on_nan_stops_at_that_step(steps_per_loop, known, capsys):
    x = numbers(20, 2)
    x[13] = np.inf  # In batches of 2, of the seventh step.
    data = tf.data.Dataset.from_tensor_slices((x, numbers(20, 1))).batch(2)
    if not known:
        data = data.filter(lambda *batch: True)
    loop = TrainLoop(line(), settings=LoopSettings(steps_per_loop=steps_per_loop))
    history = loop.fit(data, epochs=2, callbacks=[keras_callbacks.TerminateOnNaN()])
    assert int(loop.step) == 7
    assert history.epoch == [0]
    assert "Batch 6: Invalid loss, terminating training" in capsys.readouterr().out


def scalars(directory):
    """Tag -> list of (step, value) of all event files below a folder."""
    found = {}
    for path in sorted(directory.rglob("events.out.tfevents*")):
        if ".profile-empty" in path.name:
            continue
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    found.setdefault(value.tag, []).append((event.step, float(tf.make_ndarray(value.tensor))))
    return found


def graphs(directory):
    """How many graphs the event files hold."""
    return sum(
        bool(event.graph_def)
        for path in directory.rglob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
    )


def test_tensorboard_writes_epochs_and_the_graph(tmp_path):
    loop = TrainLoop(line(metrics=["mae"]), settings=LoopSettings(steps_per_loop=3))
    history = loop.fit(
        batches(4), epochs=2, validation_data=HELD_OUT, callbacks=[keras_callbacks.TensorBoard(str(tmp_path))]
    ).history
    train, validation = scalars(tmp_path / "train"), scalars(tmp_path / "validation")
    for name in ("loss", "mae"):
        assert train[f"epoch_{name}"] == [(0, pytest.approx(history[name][0])), (1, pytest.approx(history[name][1]))]
        expected = [(0, pytest.approx(history[f"val_{name}"][0])), (1, pytest.approx(history[f"val_{name}"][1]))]
        assert validation[f"epoch_{name}"] == expected
    assert [step for step, _ in validation["evaluation_loss_vs_iterations"]] == [4, 8]
    assert graphs(tmp_path / "train") == 1


class Summaries(TrainLoop):
    """Writes a summary of its own in every step."""

    def train_step(self, batch):
        outputs = super().train_step(batch)
        tf.summary.scalar("own/target", tf.reduce_sum(batch[1]))
        return outputs


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("steps_per_loop", [1, 4])
def test_tensorboard_lets_summaries_of_a_step_through_at_every_third(runtimes, tmp_path, steps_per_loop, replicas):
    y = np.arange(20, dtype=np.float32).reshape([20, 1])
    data = tf.data.Dataset.from_tensor_slices((numbers(20, 2), y)).batch(2, drop_remainder=True)
    with runtimes(replicas).scope():
        model = line(learning_rate=0.001)
    loop = Summaries(model, settings=LoopSettings(steps_per_loop=steps_per_loop))
    loop.fit(data, steps=7, callbacks=[keras_callbacks.TensorBoard(str(tmp_path / "first"), update_freq=3)])
    first = [(step, value) for step, value in scalars(tmp_path / "first")["own/target"]]
    # Step s has the targets 2 s - 2 and 2 s - 1; a summary of a replica comes from the first one.
    expected = {step: 4 * step - 3 if replicas == 1 else 2 * step - 2 for step in range(1, 11)}
    assert first == [(step, expected[step]) for step in (3, 6)]

    # Another run, another writer, and the numbers go on.
    loop.fit(data, steps=10, callbacks=[keras_callbacks.TensorBoard(str(tmp_path / "second"), update_freq=2)])
    assert scalars(tmp_path / "second")["own/target"] == [(step, expected[step]) for step in (8, 10)]
    assert tf.summary.experimental.get_step() is None


def test_summaries_of_a_step_without_tensorboard_go_to_the_default_writer(tmp_path):
    loop = Summaries(line(), settings=LoopSettings(steps_per_loop=4))
    loop.fit(batches(8), steps=2)  # Traced without a writer first.
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        loop.fit(batches(8), steps=6)
    assert [step for step, _ in scalars(tmp_path)["own/target"]] == [3, 4, 5, 6]


def test_tensorboard_profiles_the_steps_it_names(tmp_path):
    seen = []

    class Watched(keras_callbacks.TensorBoard):
        def _start_trace(self):
            super()._start_trace()
            seen.append(("start", int(loop.step)))

        def _stop_trace(self, batch=None):
            super()._stop_trace(batch)
            seen.append(("stop", int(loop.step)))

    loop = TrainLoop(line(), settings=LoopSettings(steps_per_loop=100))
    loop.fit(batches(10), callbacks=[Watched(str(tmp_path), profile_batch=(3, 5))])
    assert seen == [("start", 2), ("stop", 5)]
    assert list(tmp_path.rglob("*.xplane.pb"))


class Slow(TrainLoop):
    """Each step takes 20 ms or a little more."""

    def train_step(self, batch):
        tf.numpy_function(lambda: time.sleep(0.02), [], [])
        return super().train_step(batch)


@pytest.mark.parametrize("steps_per_loop", [1, 10])
def test_tensorboard_writes_the_rate_of_steps_and_not_of_calls(tmp_path, steps_per_loop):
    loop = Slow(line(), settings=LoopSettings(steps_per_loop=steps_per_loop))
    board = keras_callbacks.TensorBoard(str(tmp_path), update_freq=1, write_steps_per_second=True)
    loop.fit(batches(30), callbacks=[board])
    rates = scalars(tmp_path / "train")["batch_steps_per_second"]
    assert [step for step, _ in rates] == list(range(steps_per_loop, 31, steps_per_loop))
    # The first call compiles. A rate of calls would be 5 at most where each has 10 steps.
    assert all(10 < rate <= 50 for _, rate in rates[1:])


def open_files(directory):
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [target for target in map(os.path.realpath, links) if target.startswith(str(directory))]


def test_a_failed_run_lets_go_of_writers_and_files(tmp_path):
    class Fails(keras_callbacks.Callback):
        def on_test_begin(self, logs=None):
            held.extend(open_files(tmp_path))
            raise RuntimeError("in the evaluation")

    held = []
    board = keras_callbacks.TensorBoard(str(tmp_path / "board"), update_freq=1)
    table = keras_callbacks.CSVLogger(str(tmp_path / "table.csv"))
    with pytest.raises(RuntimeError, match="in the evaluation"):
        TrainLoop(line()).fit(batches(2), eval_data=HELD_OUT, callbacks=[board, table, Fails()])
    assert len(held) >= 2
    assert open_files(tmp_path) == []
    assert not tf.summary.should_record_summaries()


def test_a_stop_in_an_evaluation_leaves_no_default_writer(tmp_path):
    class Stops(Callback):
        def on_test_batch_begin(self, batch, logs=None):
            self.loop.request_stop()

    board = keras_callbacks.TensorBoard(str(tmp_path), update_freq=1)
    loop = TrainLoop(line())
    history = loop.fit(batches(2), epochs=3, eval_data=HELD_OUT, callbacks=[board, Stops()])
    assert history.epoch == []
    assert not tf.summary.should_record_summaries()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda path: keras_callbacks.BackupAndRestore(path), r"BackupAndRestore .* give TrainLoop a workdir instead"),
        (lambda path: keras_callbacks.ProgbarLogger(), r"ProgbarLogger counts calls as steps: use tpuloop.Progress"),
        (lambda path: "TensorBoard", r"'TensorBoard' is not a callback: it must derive from"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(make, message, tmp_path):
    loop = TrainLoop(line())
    with pytest.raises(ValueError, match=message):
        loop.fit(batches(2), callbacks=[make(str(tmp_path))])
    assert int(loop.step) == 0


def test_history_may_be_the_users():
    history = keras_callbacks.History()
    assert TrainLoop(line()).fit(batches(2), callbacks=[history]) is history
    assert len(history.history["loss"]) == 1
