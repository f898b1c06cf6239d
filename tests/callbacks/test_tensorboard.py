"""TensorBoardScalars: read back from real event files, as TensorBoard itself does."""

import os
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorflow.core.util.event_pb2 import Event

from tpuloop.callbacks.event_file import EventFile, session_start
from tpuloop.callbacks.tensorboard import TensorBoardScalars
from tpuloop.engine.mean import Mean
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.random.RandomState(0).rand(40, 3).astype(np.float32)
Y = np.random.RandomState(1).randint(0, 2, 40)
ALL = {"scalars": 0, "tensors": 0}


def compiled_model(*, cls=tf.keras.Sequential, optimizer="sgd", **options):
    model = cls([tf.keras.layers.Dense(2, input_shape=(3,))])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **options)
    return model


def fit(directory, *, steps, loop=None, steps_per_loop=7, callbacks=(), **options):
    if loop is None:
        loop = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=steps_per_loop))
    loop.fit(
        X, Y, batch_size=4, steps=steps, callbacks=[TensorBoardScalars(directory=str(directory)), *callbacks], **options
    )
    return loop


def scalars(directory, tag):
    """The points of a curve of ours."""
    return event_accumulator.EventAccumulator(str(directory), size_guidance=ALL).Reload().Scalars(tag)


def shown(directory, tag):
    """The steps and values that TensorBoard shows, of our curves and of `tf.summary`'s."""
    reader = plugin_event_accumulator.EventAccumulator(
        str(directory), size_guidance=ALL, tensor_size_guidance={"scalars": 0}
    )
    points = reader.Reload().Tensors(tag)
    return [(point.step, float(tf.make_ndarray(point.tensor_proto))) for point in points]


def events_in(directory):
    """The events of a folder's only file."""
    (name,) = os.listdir(directory)
    return [Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(directory / name))]


def tags(directory):
    found = event_accumulator.EventAccumulator(str(directory), size_guidance=ALL).Reload().Tags()
    return set(found["scalars"]) | set(found["tensors"])


def steps_of(points):
    return [point.step for point in points]


class Losses(Callback):
    """Keeps what the trace says of every step."""

    def __init__(self):
        super().__init__()
        self.losses, self.ended = [], []

    def on_steps_end(self, trace):
        self.losses.extend(trace.values("loss"))
        self.ended.extend(trace.ended)


# The events.


@pytest.mark.parametrize("step", [0, 1, 127, 128, 500, 2**14, 2**21 - 1, 2**28, 2**31 + 5, 2**35 - 1])
def test_event_is_the_one_that_protobuf_reads(tmp_path, step):
    event_tags = ["loss", "x" * 200, "ü"]
    values = [np.array([1.5, np.nan], np.float32), np.array([-2.0, np.inf], np.float32), np.array([0.1, 3e38])]
    file = EventFile(str(tmp_path))
    file.add_steps(
        event_tags, steps=np.array([step, step]), wall_times=np.array([1.7e9 + 0.123456, 2.0]), values=values
    )
    file.close()
    for row, event in enumerate(events_in(tmp_path)[1:]):
        assert event.step == step
        assert event.wall_time == [1.7e9 + 0.123456, 2.0][row]
        assert [value.tag for value in event.summary.value] == event_tags
        np.testing.assert_array_equal(
            [value.simple_value for value in event.summary.value], [np.float32(column[row]) for column in values]
        )


def test_every_step_is_written_at_its_time_and_value(tmp_path):
    losses = Losses()
    before = time.time()
    fit(tmp_path, steps=20, callbacks=[losses])
    points = scalars(tmp_path / "train", "loss")
    assert steps_of(points) == list(range(1, 21))
    np.testing.assert_array_equal([point.value for point in points], losses.losses)
    np.testing.assert_array_equal([point.wall_time for point in points], losses.ended)
    assert before <= points[0].wall_time <= points[-1].wall_time <= time.time()


@pytest.mark.parametrize("steps_per_loop", [1, 7, 500])
def test_thousand_steps_are_thousand_points(tmp_path, steps_per_loop):
    fit(tmp_path, steps=1000, steps_per_loop=steps_per_loop, steps_per_epoch=500)
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(1, 1001))


def test_metrics_are_written_at_the_end_of_calls(tmp_path):
    fit(tmp_path, steps=20, steps_per_loop=7, steps_per_epoch=20)
    assert steps_of(scalars(tmp_path / "train", "accuracy")) == [7, 14, 20]


def test_step_outputs_are_curves(tmp_path):
    class Loop(TrainLoop):
        def forward_loss(self, batch, *, training):
            loss, _ = super().forward_loss(batch, training=training)
            return loss, {"first_part": Mean(tf.fill([4], 3.0))}

    schedule = tf.keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=10, end_learning_rate=0.0)
    model = compiled_model(optimizer=tf.keras.optimizers.SGD(schedule))
    loop = Loop(model, settings=LoopSettings(steps_per_loop=4, clip_norm=1.0))
    fit(tmp_path, steps=10, loop=loop)
    train = tmp_path / "train"
    assert tags(train) == {"loss", "first_part", "learning_rate", "gradient_norm", "accuracy"}
    assert [point.value for point in scalars(train, "first_part")] == [3.0] * 10
    np.testing.assert_allclose(
        [point.value for point in scalars(train, "learning_rate")], 1 - np.arange(10) / 10, rtol=1e-6
    )
    assert all(point.value > 0 for point in scalars(train, "gradient_norm"))


def test_learning_rate_variable_is_a_curve(tmp_path):
    halve = tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 ** (epoch + 1))
    fit(tmp_path, steps=6, steps_per_epoch=3, callbacks=[halve])
    points = scalars(tmp_path / "train", "learning_rate")
    assert [(point.step, point.value) for point in points] == [
        (step, 0.5 if step < 4 else 0.25) for step in range(1, 7)
    ]


def test_schedule_of_an_experimental_optimizer_is_no_constant_of_a_call(tmp_path):
    class Own(tf.keras.Sequential):
        def train_step(self, data):  # Reports no learning rate.
            return super().train_step(data)

    schedule = tf.keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=10, end_learning_rate=0.0)
    model = compiled_model(cls=Own, optimizer=tf.keras.optimizers.experimental.SGD(schedule))
    fit(tmp_path, steps=10, loop=TrainLoop(model, settings=LoopSettings(steps_per_loop=4)))
    assert tags(tmp_path / "train") == {"loss", "accuracy"}


def test_learning_rate_variable_of_an_experimental_optimizer_is_a_curve(tmp_path):
    model = compiled_model(optimizer=tf.keras.optimizers.experimental.SGD(0.25))
    fit(tmp_path, steps=3, loop=TrainLoop(model, settings=LoopSettings(steps_per_loop=2)))
    points = scalars(tmp_path / "train", "learning_rate")
    assert [(point.step, point.value) for point in points] == [(1, 0.25), (2, 0.25), (3, 0.25)]


def test_evaluations_are_written_at_the_global_step(tmp_path):
    loop = fit(tmp_path, steps=20, eval_data=(X, Y), eval_every=10)
    points = scalars(tmp_path / "eval", "loss")
    assert steps_of(points) == [10, 20]
    assert points[-1].value == pytest.approx(loop.evaluate(X, Y)["loss"])
    assert steps_of(scalars(tmp_path / "eval", "accuracy")) == [10, 20]


def test_evaluation_alone_is_written_at_the_step_of_the_loop(tmp_path):
    loop = fit(tmp_path / "training", steps=20)
    loop.evaluate(X, Y, callbacks=[TensorBoardScalars(directory=str(tmp_path))])
    assert steps_of(scalars(tmp_path / "eval", "loss")) == [20]
    assert not (tmp_path / "train").exists()


def test_several_replicas_write_each_step_once(tmp_path, runtimes):
    runtime = runtimes(2)
    with runtime.scope():
        model = compiled_model()
    loop = TrainLoop(model, runtime=runtime, settings=LoopSettings(steps_per_loop=7))
    fit(tmp_path, steps=20, loop=loop)
    for tag in ("loss", "learning_rate"):
        assert steps_of(scalars(tmp_path / "train", tag)) == list(range(1, 21))


# Restarts.


def test_restart_continues_and_forgets_what_lay_beyond(tmp_path):
    fit(tmp_path, steps=20, eval_data=(X, Y), eval_every=5)  # An attempt that got to step 20, saved at step 10,
    again = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=7))
    again.step.assign(10)
    losses = Losses()
    fit(
        tmp_path, loop=again, steps=15, eval_data=(X, Y), eval_every=5, callbacks=[losses]
    )  # and one that goes on there.

    for read in (
        lambda tag: steps_of(scalars(tmp_path / "train", tag)),
        lambda tag: list(dict(shown(tmp_path / "train", tag))),
    ):
        assert read("loss") == list(range(1, 16))
        assert read("accuracy") == [5, 10, 15]
    assert [value for _, value in shown(tmp_path / "train", "loss")][10:] == losses.losses
    assert steps_of(scalars(tmp_path / "eval", "loss")) == [5, 10, 15]
    assert [step for step, _ in shown(tmp_path / "eval", "loss")] == [5, 10, 15]


def test_resume_from_a_checkpoint_keeps_one_curve(tmp_path):
    def attempt(steps):
        loop = TrainLoop(
            compiled_model(), workdir=str(tmp_path / "run"), settings=LoopSettings(steps_per_loop=7, save_every=10)
        )
        fit(tmp_path, loop=loop, steps=steps)

    attempt(10)
    attempt(20)
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(1, 21))


def test_new_run_in_an_old_folder_replaces_its_curves(tmp_path):
    fit(tmp_path, steps=20)
    fit(tmp_path, steps=5)
    assert [step for step, _ in shown(tmp_path / "train", "loss")] == [1, 2, 3, 4, 5]


def test_file_that_is_made_first_holds_the_session_start(tmp_path):
    starts = [session_start(11)]
    file = EventFile(str(tmp_path), first=lambda: starts.pop() if starts else None)
    file.add({"loss": 1.0}, step=11, wall_time=5.0)
    file.close()
    assert [(event.WhichOneof("what"), event.step) for event in events_in(tmp_path)] == [
        ("file_version", 0),
        ("session_log", 11),
        ("summary", 11),
    ]


# When it can be read.


def test_files_are_flushed_every_two_seconds_and_at_the_end(tmp_path):
    now = [100.0]
    callback = TensorBoardScalars(directory=str(tmp_path), clock=lambda: now[0])
    seen = []

    def at_end_of_call(batch, logs):
        # Of steps before this call: the callback before us has flushed this one's, if any.
        written = tags(tmp_path / "train") and steps_of(scalars(tmp_path / "train", "loss"))
        seen.append(written[-1] if written else 0)
        now[0] += 1.0

    loop = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=1))
    look = tf.keras.callbacks.LambdaCallback(on_train_batch_end=at_end_of_call)
    loop.fit(X, Y, batch_size=4, steps=6, callbacks=[callback, look])
    assert seen == [0, 0, 3, 3, 5, 5]
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(1, 7))


def test_all_steps_are_there_after_an_error(tmp_path):
    def fail(batch, logs):
        if batch == 13:
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fit(
            tmp_path,
            steps=20,
            steps_per_epoch=20,
            callbacks=[tf.keras.callbacks.LambdaCallback(on_train_batch_end=fail)],
        )
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(1, 15))
    assert tf.summary.experimental.get_step() is None


def test_folder_may_be_on_any_file_system_of_tensorflow():
    fit("ram://run/events", steps=3, loop=with_summaries(), eval_data=(X, Y), eval_every=3)
    files = [name for run in ("train", "eval") for name in tf.io.gfile.glob(f"ram://run/events/{run}/*")]
    found = {}
    for name in files:
        for record in tf.data.TFRecordDataset(name):
            event = Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault((name.split("/")[-2], value.tag), []).append(event.step)
    assert found["train", "loss"] == found["train", "twice_the_loss"] == [1, 2, 3]
    assert found["eval", "loss"] == [3]


def test_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "events").write_text("a file, not a folder")
    with pytest.raises(tf.errors.OpError, match="events"):
        fit(tmp_path / "events", steps=3)


# The user's own tf.summary calls.


class WithSummaries(TrainLoop):
    def train_step(self, batch):
        outputs = super().train_step(batch)
        tf.summary.scalar("twice_the_loss", 2 * tf.reduce_mean(outputs["loss"].values))
        return outputs

    def eval_step(self, batch):
        tf.summary.scalar("evaluated", 1.0)
        return super().eval_step(batch)


def with_summaries(steps_per_loop=7, **options):
    return WithSummaries(compiled_model(), settings=LoopSettings(steps_per_loop=steps_per_loop, **options))


@pytest.mark.parametrize("kind", ["graph", "host"])
def test_summaries_of_a_step_land_at_its_number(tmp_path, kind):
    losses = Losses()
    fit(tmp_path, steps=20, loop=with_summaries(loop=kind), callbacks=[losses])
    points = shown(tmp_path / "train", "twice_the_loss")
    assert [step for step, _ in points] == list(range(1, 21))
    np.testing.assert_allclose([value for _, value in points], 2 * np.array(losses.losses), rtol=1e-5)


def test_summaries_of_an_evaluation_land_apart(tmp_path):
    fit(tmp_path, steps=4, loop=with_summaries(), eval_data=(X, Y))
    assert "evaluated" in tags(tmp_path / "eval")
    assert "evaluated" not in tags(tmp_path / "train")
    assert steps_of(scalars(tmp_path / "eval", "loss")) == [4]


def test_summaries_after_a_restart_are_one_curve(tmp_path):
    fit(tmp_path, steps=20, loop=with_summaries())
    again = with_summaries()
    again.step.assign(10)
    time.sleep(
        1.1
    )  # TensorBoard reads files in the order of their names, which tell the second; a restart takes longer.
    fit(tmp_path, steps=15, loop=again)
    assert [step for step, _ in shown(tmp_path / "train", "twice_the_loss")] == list(range(1, 16))
    assert [step for step, _ in shown(tmp_path / "train", "loss")] == list(range(1, 16))


def test_next_fit_writes_to_its_own_folder_without_another_trace(tmp_path):
    loop = with_summaries(steps_per_loop=10)
    fit(tmp_path / "first", steps=10, loop=loop)
    (engine,) = loop._engines._made.values()
    traces = engine.function.experimental_get_tracing_count()
    fit(tmp_path / "second", steps=20, loop=loop)
    assert [step for step, _ in shown(tmp_path / "first/train", "twice_the_loss")] == list(range(1, 11))
    assert [step for step, _ in shown(tmp_path / "second/train", "twice_the_loss")] == list(range(11, 21))
    assert engine.function.experimental_get_tracing_count() == traces


def test_fits_with_and_without_the_callback_take_turns(tmp_path):
    loop = with_summaries(steps_per_loop=10)
    loop.fit(X, Y, batch_size=4, steps=5)
    fit(tmp_path, steps=10, loop=loop)
    loop.fit(X, Y, batch_size=4, steps=15)
    loop.evaluate(X, Y)
    assert [step for step, _ in shown(tmp_path / "train", "twice_the_loss")] == list(range(6, 11))


def test_summary_writer_of_the_caller_is_put_back(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path / "own")).as_default(step=77):
        fit(tmp_path / "run", steps=3)
        assert tf.summary.scalar("mine", 1.0)
        assert tf.summary.experimental.get_step() == 77
    assert [step for step, _ in shown(tmp_path / "own", "mine")] == [77]


@pytest.mark.parametrize("ours_first", [True, False])
def test_keras_tensorboard_beside_it_leaves_no_writer_behind(tmp_path, ours_first):
    stock = tf.keras.callbacks.TensorBoard(str(tmp_path / "stock"), update_freq="batch")
    both = [TensorBoardScalars(directory=str(tmp_path / "ours")), stock]
    loop = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=3))
    loop.fit(X, Y, batch_size=4, steps=6, callbacks=both if ours_first else both[::-1])
    assert steps_of(scalars(tmp_path / "ours/train", "loss")) == list(range(1, 7))
    assert not tf.summary.scalar("nowhere", 1.0, step=1)


def test_summaries_of_callbacks_have_the_step(tmp_path):
    report = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: tf.summary.scalar("own", 1.0))
    fit(tmp_path, steps=10, steps_per_loop=5, callbacks=[report])
    assert [step for step, _ in shown(tmp_path / "train", "own")] == [5, 10]


# Keras's model.fit.


@pytest.mark.parametrize("per_execution", [1, 4])
def test_works_in_keras_fit(tmp_path, per_execution):
    model = compiled_model(steps_per_execution=per_execution)
    model.fit(
        X,
        Y,
        batch_size=4,
        epochs=2,
        validation_data=(X, Y),
        verbose=0,
        callbacks=[TensorBoardScalars(directory=str(tmp_path))],
    )
    ends = range(1, 11) if per_execution == 1 else (4, 8, 10)
    expected = [10 * epoch + step for epoch in range(2) for step in ends]
    for tag in ("loss", "accuracy"):
        assert steps_of(scalars(tmp_path / "train", tag)) == expected
        assert steps_of(scalars(tmp_path / "eval", tag)) == [10, 20]


def test_second_keras_fit_continues_the_curve(tmp_path):
    model = compiled_model()
    for _ in range(2):
        model.fit(X, Y, batch_size=4, verbose=0, callbacks=[TensorBoardScalars(directory=str(tmp_path))])
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(1, 21))


def test_keras_initial_epoch_counts(tmp_path):
    callback = TensorBoardScalars(directory=str(tmp_path))
    compiled_model().fit(X, Y, batch_size=4, epochs=3, initial_epoch=2, verbose=0, callbacks=[callback])
    assert steps_of(scalars(tmp_path / "train", "loss")) == list(range(21, 31))


def test_keras_steps_with_summaries_may_be_trained_again_without_the_callback(tmp_path):
    class Model(tf.keras.Sequential):
        def train_step(self, data):
            tf.summary.scalar("own", 1.0)
            return super().train_step(data)

    model = compiled_model(cls=Model)
    model.fit(X, Y, batch_size=4, verbose=0, callbacks=[TensorBoardScalars(directory=str(tmp_path))])
    model.fit(X, Y, batch_size=4, verbose=0)
    assert len(shown(tmp_path / "train", "own")) == 10
