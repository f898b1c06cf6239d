"""Progress: what it shows, when, and how it computes the rate."""

import fcntl
import io
import os
import re
import struct
import sys
import termios
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.callbacks import progress_line
from tpuloop.callbacks.pace import Pace
from tpuloop.callbacks.progress import Progress
from tpuloop.engine.trace import StepTrace
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.random.RandomState(0).rand(40, 3).astype(np.float32)
Y = np.random.RandomState(1).randint(0, 2, 40)


def compiled_model(**options):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], **options)
    return model


def trace(first, last, *, began, ended):
    """Steps `first` to `last`, evenly over the seconds from `began` to `ended`."""
    times = np.linspace(began, ended, last - first + 2)
    return StepTrace(first, {}, {}, asked=times[:-1], came=times[:-1], ended=times[1:])


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Run:
    """A run of a loop as Progress sees it; `clock` is moved by hand."""

    def __init__(self, *, total, done=0, global_batch=None, interval=10.0, stream=None):
        self.stream = io.StringIO() if stream is None else stream
        self.clock = Clock()
        self.progress = Progress(stream=self.stream, interval=interval, clock=self.clock)
        self.progress.set_params({"total_steps": total, "global_batch": global_batch})
        self.progress.set_loop(types.SimpleNamespace(step=tf.Variable(done, dtype=tf.int64)))
        self.progress.on_train_begin({})

    def call(self, first, last, *, seconds, at, logs=None):
        """A call that took `seconds` and is over at the clock's `at`; the trace's own clock starts elsewhere."""
        self.clock.now = at
        self.progress.on_steps_end(trace(first, last, began=5000 + at - seconds, ended=5000 + at))
        self.progress.on_train_batch_end(last - 1, {"loss": 0.5} if logs is None else logs)

    @property
    def lines(self):
        return self.stream.getvalue().splitlines()


def test_rate_is_steps_over_their_own_time():
    pace = Pace(window=10)
    assert pace.steps_per_second is None
    pace.add(4, 2.0, now=100.0)
    assert pace.steps_per_second == 2.0
    pace.add(20, 2.0, now=150.0)  # 48 seconds of something else in between.
    assert pace.steps_per_second == 24 / 4.0


def test_rate_forgets_calls_older_than_the_window():
    pace = Pace(window=10)
    pace.add(100, 10.0, now=10.0)
    pace.add(10, 5.0, now=15.0)
    assert pace.steps_per_second == 110 / 15  # Without the first, less than a window would be left.
    pace.add(10, 5.0, now=20.0)
    assert pace.steps_per_second == 20 / 10


def test_time_left_counts_pauses():
    pace = Pace(window=10)
    assert pace.seconds_left(5, now=0.0) is None
    pace.add(10, 2.0, now=12.0)  # Began at 10.
    pace.add(10, 2.0, now=30.0)
    assert pace.seconds_left(5, now=30.0) == 5 * (30 - 10) / 20


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03"), (176523, "2d 1:02:03")],
)
def test_duration(seconds, text):
    assert progress_line.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123456, "0.01235"), (812.34, "812.3"), (52310.4, "52310"), (1e-9, "1e-09"), (0.0, "0")]
)
def test_number(value, text):
    assert progress_line.number(value) == text


def test_line_shows_step_rate_examples_time_left_and_values():
    run = Run(total=1000, global_batch=64)
    run.call(1, 100, seconds=4, at=30, logs={"loss": 0.25, "accuracy": 0.5})
    assert run.lines == ["step 100/1000  25 steps/s  1600 examples/s  ETA 0:36  loss 0.25  accuracy 0.5"]


def test_line_without_total_and_batch():
    run = Run(total=None)
    run.call(1, 100, seconds=4, at=30)
    assert run.lines == ["step 100  25 steps/s  loss 0.5"]


def test_evaluation_and_compilation_are_not_in_the_rate():
    run = Run(total=300)
    run.call(1, 100, seconds=4, at=60)  # After 56 seconds of compilation.
    run.progress.on_test_begin({})
    run.clock.now = 90
    run.progress.on_test_end({"loss": 0.31, "accuracy": 0.91})
    run.call(101, 200, seconds=4, at=94)
    assert run.lines == [
        "step 100/300  25 steps/s  ETA 0:08  loss 0.5",
        "step 100  val_loss 0.31  val_accuracy 0.91",
        "step 200/300  25 steps/s  ETA 0:19  loss 0.5",  # (94 - 56) seconds for 200 steps.
    ]


def test_lines_come_first_then_at_the_interval_then_last():
    run = Run(total=10)
    for step in range(1, 11):
        run.call(step, step, seconds=1, at=4.0 * step)
    run.progress.on_train_end({})
    shown = [int(re.match(r"step (\d+)/10", line).group(1)) for line in run.lines]
    assert shown == [1, 4, 7, 10]


def test_run_that_ends_early_shows_its_last_step():
    run = Run(total=1000)
    run.call(1, 1, seconds=1, at=1)
    run.call(2, 3, seconds=2, at=3)
    run.progress.on_train_end({})
    run.progress.close()
    assert [line.split("  ")[0] for line in run.lines] == ["step 1/1000", "step 3/1000"]


def test_last_step_stands_before_its_evaluation():
    run = Run(total=3)
    run.call(1, 1, seconds=1, at=1)
    run.call(2, 3, seconds=2, at=3)
    run.progress.on_test_end({"loss": 0.25})
    run.progress.on_train_end({})
    assert [line.split("  ")[0] for line in run.lines] == ["step 1/3", "step 3/3", "step 3"]


def test_continued_run_starts_at_its_step():
    run = Run(total=100, done=50)
    run.call(51, 60, seconds=1, at=1)
    assert run.lines == ["step 60/100  10 steps/s  ETA 0:04  loss 0.5"]


def test_values_that_are_not_scalars_are_left_out():
    run = Run(total=2)
    run.call(1, 1, seconds=1, at=1, logs={"matrix": [1.0, 2.0], "array": np.ones(3), "loss": np.float32(0.5)})
    assert run.lines == ["step 1/2  1 steps/s  ETA 0:01  loss 0.5"]


def test_negative_interval_is_refused():
    with pytest.raises(ValueError, match="interval must be 0 seconds or more; it is -1"):
        Progress(interval=-1)


def fit(stream, *, steps=20, callbacks=(), **options):
    loop = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=2))
    loop.fit(X, Y, batch_size=4, steps=steps, callbacks=[Progress(stream=stream, **options), *callbacks])
    return loop


def test_loop_writes_no_control_characters_into_a_pipe():
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream:
        loop = TrainLoop(compiled_model(), settings=LoopSettings(steps_per_loop=2))
        progress = Progress(stream=stream, interval=0)
        loop.fit(X, Y, batch_size=4, steps=20, eval_data=(X, Y), eval_every=10, callbacks=[progress])
    text = os.fdopen(read_end).read()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    lines = text.splitlines()
    shown = [re.match(r"step (\d+)(/20|  val_loss)", line).group(1, 2) for line in lines]
    steps = [(str(step), "/20") for step in range(2, 21, 2)]
    assert shown == [*steps[:5], ("10", "  val_loss"), *steps[5:], ("20", "  val_loss")]
    assert re.fullmatch(r"step 20/20  [\d.]+ steps/s  [\d.]+ examples/s  loss [\d.]+  accuracy [\d.]+", lines[-2])


class Terminal:
    """A pseudo-terminal. What was written to `stream` is in `text()`, which closes it."""

    def __init__(self, *, rows=24, columns=100):
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.stream = os.fdopen(slave, "w")
        self._drawn = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                self._drawn += os.read(self._master, 4096)
            except OSError:  # The other end is closed.
                return

    def text(self):
        self.stream.close()
        self._reader.join()
        os.close(self._master)
        return self._drawn.decode()


@pytest.mark.parametrize("size", [{"rows": 24, "columns": 100}, {"rows": 0, "columns": 0}])
def test_terminal_gets_one_bar(size):
    terminal = Terminal(**size)
    fit(terminal.stream)
    drawn = terminal.text()
    assert drawn.endswith("\r\n")
    assert drawn.count("\n") == 1  # Everything before it was drawn over itself.
    frames = [frame for frame in drawn.strip().split("\r") if frame]
    assert "step 0/20  compiling" in "".join(frames[:3])
    assert re.match(r"100%\|█+\| step 20/20  [\d.]+ steps/s", frames[-1])
    assert max(map(len, frames)) <= (size["columns"] or 80)


def test_evaluation_is_printed_above_the_bar():
    terminal = Terminal()
    run = Run(total=4, stream=terminal.stream)
    run.call(1, 2, seconds=1, at=1)
    run.progress.on_test_end({"loss": 0.5})
    run.call(3, 4, seconds=1, at=2)
    run.progress.on_train_end({})
    lines = [line.split("\r")[-1] for line in terminal.text().split("\r\n")]
    assert lines[0] == "step 2  val_loss 0.5"
    assert re.match(r"100%\|█+\| step 4/4", lines[-2])
    assert lines[-1] == ""


def test_bar_is_not_redrawn_more_often_than_anybody_can_see():
    terminal = Terminal()
    run = Run(total=1000, stream=terminal.stream)
    for step in range(1, 501):
        run.call(step, step, seconds=0.001, at=0.001 * step)
    run.progress.close()
    drawn = terminal.text()
    assert len(set(re.findall(r"step (\d+)/1000  ", drawn))) <= 7  # 0, and one each 0.1 seconds.


def test_error_leaves_the_terminal_on_a_new_line():
    terminal = Terminal()

    def fail(batch, logs):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fit(terminal.stream, callbacks=[tf.keras.callbacks.LambdaCallback(on_train_batch_end=fail)])
    assert terminal.text().endswith("\r\n")


def test_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    fit(terminal.stream)
    assert "\r" not in terminal.text().replace("\r\n", "\n")


def test_notebook_without_widgets_gets_the_text_bar(monkeypatch):
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    stream = io.StringIO()
    fit(stream)
    assert re.search(r"\r100%\|[█#]+\| step 20/20", stream.getvalue())


@pytest.mark.parametrize("per_execution", [1, 4])
def test_works_in_keras_fit(per_execution):
    stream = io.StringIO()
    model = compiled_model(steps_per_execution=per_execution)
    model.fit(
        X, Y, batch_size=4, epochs=3, validation_data=(X, Y), verbose=0, callbacks=[Progress(stream=stream, interval=0)]
    )
    lines = stream.getvalue().splitlines()
    shown = [int(re.match(r"step (\d+)/30", line).group(1)) for line in lines if "val_" not in line]
    in_epoch = range(1, 11) if per_execution == 1 else (4, 8, 10)
    assert shown == [10 * epoch + step for epoch in range(3) for step in in_epoch]
    evaluated = [line for line in lines if "val_" in line]
    assert [line.split("  ")[0] for line in evaluated] == ["step 10", "step 20", "step 30"]
    assert re.fullmatch(r"step 30/30  [\d.]+ steps/s  loss [\d.]+  accuracy [\d.]+", lines[-2])


@pytest.mark.parametrize("pause", ["evaluation", "epoch"])
def test_keras_rate_leaves_out_compilation_and_pauses(pause):
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream=stream, interval=0, clock=clock)
    progress.set_params({"epochs": 2, "steps": 4})
    progress.on_train_begin()

    def batch(number, *, began, ended):
        clock.now = began
        progress.on_train_batch_begin(number)
        clock.now = ended
        progress.on_train_batch_end(number, {"loss": tf.constant(0.5)})

    progress.on_epoch_begin(0)
    batch(0, began=0, ended=50)  # Compiles.
    batch(1, began=50.2, ended=50.5)
    clock.now = 90
    if pause == "evaluation":
        progress.on_test_begin()
        progress.on_test_end({"loss": 1.0})
    else:
        progress.on_epoch_end(0)
        progress.on_epoch_begin(1)
    first = 2 if pause == "evaluation" else 0
    batch(first, began=95, ended=95.5)
    batch(first + 1, began=95.5, ended=96)
    rates = [re.search(r"([\d.]+) steps/s", line) for line in stream.getvalue().splitlines() if "val" not in line]
    assert [rate and float(rate.group(1)) for rate in rates] == [None, 2, 2, 2]


def test_keras_initial_epoch_counts():
    stream = io.StringIO()
    compiled_model().fit(
        X, Y, batch_size=4, epochs=3, initial_epoch=2, verbose=0, callbacks=[Progress(stream=stream, interval=0)]
    )
    assert stream.getvalue().startswith("step 21/30  ")


def test_evaluation_alone_prints_its_line():
    stream = io.StringIO()
    loop = fit(io.StringIO())
    loop.evaluate(X, Y, callbacks=[Progress(stream=stream)])
    assert re.fullmatch(r"step 20  val_loss [\d.]+  val_accuracy [\d.]+\n", stream.getvalue())


def test_keras_evaluation_alone_prints_its_line():
    stream = io.StringIO()
    compiled_model().evaluate(X, Y, verbose=0, callbacks=[Progress(stream=stream)])
    assert re.fullmatch(r"step 0  val_loss [\d.]+  val_accuracy [\d.]+\n", stream.getvalue())
