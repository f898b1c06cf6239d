"""The compiled loop and the host loop: which steps run, what is recorded of them, and what ends them."""

import logging
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.graph_loop import GraphLoop, HostLoop, plain
from tpuloop.engine.mean import Mean
from tpuloop.engine.step import GlobalStep
from tpuloop.engine.stop import StopFlag


def make_loop(kind, replica_step, strategy=None, counters=(), results=dict, **arguments):
    strategy = tf.distribute.get_strategy() if strategy is None else strategy
    stop = StopFlag()
    step = GlobalStep(strategy=strategy, replica_step=replica_step, seed=0, split=strategy.num_replicas_in_sync > 1)
    return kind(step=step, stop=stop, counters=list(counters), results=results, **arguments), stop


def values_of(batch):
    return {"value": Mean(batch)}


def numbers(count, size=2):
    """Batches [0, 1], [2, 3], ... as floats."""
    return tf.data.Dataset.range(count * size).map(lambda i: tf.cast(i, tf.float32)).batch(size)


both_kinds = pytest.mark.parametrize("kind", [GraphLoop, HostLoop])


@both_kinds
def test_records_every_step(kind):
    counter = tf.Variable(0, dtype=tf.int64)
    total = tf.Variable(0.0)

    def step(batch):
        total.assign_add(tf.reduce_sum(batch))
        return {"value": Mean(batch), "before": tf.cast(counter, tf.float32), "scalar": tf.constant(3.0)}

    loop, _ = make_loop(kind, step, counters=[counter], results=lambda: {"total": total})
    iterator = iter(numbers(10))
    first = loop.run(iterator, done=0, steps=3)
    second = loop.run(iterator, done=3, steps=4)

    assert first.trace.steps.tolist() == [1, 2, 3]
    assert second.trace.steps.tolist() == [4, 5, 6, 7]
    assert first.trace.values("value").tolist() == [0.5, 2.5, 4.5]
    assert second.trace.values("value").tolist() == [6.5, 8.5, 10.5, 12.5]
    assert second.trace.weights["value"].tolist() == [2.0] * 4
    assert second.trace.values("before").tolist() == [3, 4, 5, 6]  # The counter was true at every step.
    assert int(counter) == 7
    assert first.results == {"total": sum(range(6))}
    assert type(first.results["total"]) is float
    assert not first.data_ended


def test_one_trace_for_every_number_of_steps():
    loop, _ = make_loop(GraphLoop, values_of)
    iterator = iter(numbers(104))
    done = 0
    for steps in (1, 3, 100):
        assert len(loop.run(iterator, done=done, steps=steps).trace) == steps
        done += steps
    loop.run(iter(numbers(5)), done=0, steps=5)  # Another iterator over data of the same kind.
    assert loop.function.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("kind", [GraphLoop, HostLoop])
def test_two_replicas_are_summed(kind, runtimes):
    strategy = runtimes(2).strategy

    def step(batch):
        return {"value": Mean(batch), "weighted": Mean(batch, batch)}

    with strategy.scope():
        loop, _ = make_loop(kind, step, strategy)
        # Batches of 3 on 2 replicas: 2 + 1.
        trace = loop.run(iter(numbers(4, size=3)), done=0, steps=2).trace
    assert trace.weights["value"].tolist() == [3, 3]
    assert trace.values("value").tolist() == [1, 4]
    assert trace.values("weighted") == pytest.approx([(0 + 1 + 4) / 3, (9 + 16 + 25) / 12])


@both_kinds
def test_clock_is_in_order(kind):
    loop, _ = make_loop(kind, values_of)
    before = time.time()
    trace = loop.run(iter(numbers(20)), done=0, steps=20).trace
    after = time.time()
    assert before <= trace.asked[0] and trace.ended[-1] <= after
    assert np.all(trace.asked <= trace.came)
    assert np.all(trace.came <= trace.ended)
    assert np.all(trace.ended[:-1] <= trace.asked[1:])


def sleep(value, seconds=0.03):
    def slept(number):
        time.sleep(seconds)
        return number

    return tf.ensure_shape(tf.py_function(slept, [value], value.dtype), value.shape)


@both_kinds
@pytest.mark.parametrize("used", [True, False])
def test_time_of_a_step_is_the_time_it_takes(kind, used):
    def step(batch):
        slept = sleep(tf.reduce_sum(batch))
        return {"value": slept if used else tf.reduce_sum(batch)}

    loop, _ = make_loop(kind, step)
    trace = loop.run(iter(numbers(4)), done=0, steps=4).trace
    assert np.all(trace.ended - trace.asked >= 0.03)
    assert np.min(trace.came - trace.asked) < 0.03


@both_kinds
def test_time_of_a_step_includes_its_last_variable_update(kind):
    variable = tf.Variable(0.0)

    def step(batch):
        variable.assign_add(sleep(tf.reduce_sum(batch)))
        return {"value": tf.reduce_sum(batch)}

    loop, _ = make_loop(kind, step)
    trace = loop.run(iter(numbers(4)), done=0, steps=4).trace
    assert np.all(trace.ended - trace.came >= 0.03)
    assert float(variable) == sum(range(8))


@both_kinds
@pytest.mark.parametrize("may_end", [False, True])
def test_waiting_for_data_is_told_from_the_step(kind, may_end):
    loop, _ = make_loop(kind, values_of, data_may_end=may_end)
    trace = loop.run(iter(numbers(4).map(sleep)), done=0, steps=4).trace
    assert np.all(trace.came - trace.asked >= 0.03)
    assert np.min(trace.ended - trace.came) < 0.03


@both_kinds
def test_data_that_ends_ends_the_call(kind):
    loop, _ = make_loop(kind, values_of, data_may_end=True)
    iterator = iter(numbers(5))
    first = loop.run(iterator, done=0, steps=3)
    second = loop.run(iterator, done=3, steps=100)
    third = loop.run(iterator, done=5, steps=100)
    assert [len(call.trace) for call in (first, second, third)] == [3, 2, 0]
    assert [call.data_ended for call in (first, second, third)] == [False, True, True]
    assert second.trace.values("value").tolist() == [6.5, 8.5]


@both_kinds
def test_data_that_ends_on_two_replicas(kind, runtimes):
    strategy = runtimes(2).strategy
    with strategy.scope():
        loop, _ = make_loop(kind, values_of, strategy, data_may_end=True)
        call = loop.run(iter(numbers(3)), done=0, steps=100)
    assert call.trace.values("value").tolist() == [0.5, 2.5, 4.5]
    assert call.data_ended


@both_kinds
@pytest.mark.parametrize("may_end", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_halts_at_the_step_whose_first_output_is_not_finite(kind, may_end, bad):
    def step(batch):
        first = tf.reduce_sum(batch)
        return {"loss": tf.where(first > 8.0, bad, first), "other": tf.constant(float("nan"))}

    loop, _ = make_loop(kind, step, halt_on_nonfinite=True, data_may_end=may_end)
    iterator = iter(numbers(6))
    call = loop.run(iterator, done=0, steps=6)
    assert len(call.trace) == 3  # Sums 1, 5, 9.
    assert not np.isfinite(call.trace.values("loss")[-1])
    assert not call.data_ended


@both_kinds
def test_a_value_that_is_not_finite_ends_nothing_where_nobody_asked(kind):
    loop, _ = make_loop(kind, lambda batch: {"loss": tf.reduce_sum(batch) / 0.0})
    assert len(loop.run(iter(numbers(4)), done=0, steps=4).trace) == 4


def test_stop_from_a_thread_ends_a_long_call_at_the_next_step():
    counter = tf.Variable(0, dtype=tf.int64)
    loop, stop = make_loop(GraphLoop, values_of, counters=[counter])
    iterator = iter(numbers(1).repeat())
    loop.run(iterator, done=0, steps=1)  # Traced, so that the stop falls into running steps.

    def stop_soon():
        while int(counter) < 5:
            time.sleep(0.001)
        stop.set()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    call = loop.run(iterator, done=1, steps=2_000_000_000)
    thread.join()
    assert 5 <= call.trace.last_step < 2_000_000_000
    assert int(counter) == call.trace.last_step
    assert not call.data_ended


@both_kinds
def test_stop_before_the_first_step_takes_no_batch(kind):
    loop, stop = make_loop(kind, values_of, data_may_end=True)
    iterator = iter(numbers(3))
    loop.run(iterator, done=0, steps=1)
    stop.set()
    assert len(loop.run(iterator, done=1, steps=2).trace) == 0
    stop.run_ended(stopped=True)
    assert stop.ended_run
    assert loop.run(iterator, done=1, steps=2).trace.values("value").tolist() == [2.5, 4.5]


@both_kinds
def test_results_of_metrics_with_several_values_are_lists(kind):
    loop, _ = make_loop(kind, values_of, results=lambda: {"pair": tf.constant([1.0, 2.0]), "one": tf.constant(3)})
    results = loop.run(iter(numbers(1)), done=0, steps=1).results
    assert results == {"pair": [1.0, 2.0], "one": 3.0}
    assert type(results["one"]) is float


def test_plain():
    assert plain({"a": np.float32(0.5), "b": tf.constant([1, 2])}) == {"a": 0.5, "b": [1.0, 2.0]}


@both_kinds
@pytest.mark.parametrize("wrong", [None, {}, tf.constant(1.0)])
def test_a_step_must_return_named_values(kind, wrong):
    loop, _ = make_loop(kind, lambda batch: wrong)
    with pytest.raises(TypeError, match="a step must return a non-empty dict of named values"):
        loop.run(iter(numbers(1)), done=0, steps=1)


@both_kinds
def test_summaries_of_a_step_are_filed_under_its_number(kind, tmp_path):
    def step(batch):
        tf.summary.scalar("own", tf.reduce_sum(batch))
        return values_of(batch)

    loop, _ = make_loop(kind, step)
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        iterator = iter(numbers(5))
        loop.run(iterator, done=0, steps=2)
        loop.run(iterator, done=2, steps=3)
        assert tf.summary.experimental.get_step() is None
    writer.close()
    (path,) = tmp_path.iterdir()
    events = [event for event in tf.compat.v1.train.summary_iterator(str(path)) if event.summary.value]
    values = [event.summary.value[0] for event in events]
    found = [(event.step, value.tag, float(tf.make_ndarray(value.tensor))) for event, value in zip(events, values)]
    assert found == [(1, "own", 1.0), (2, "own", 5.0), (3, "own", 9.0), (4, "own", 13.0), (5, "own", 17.0)]


def retracing_warnings(work):
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = tf.get_logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("WARNING")
    try:
        work()
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    return [message for message in messages if "triggered tf.function retracing" in message]


def test_tensorflow_warns_of_one_loop_that_is_traced_again_and_again_and_not_of_many_loops():
    def many():
        for _ in range(7):
            make_loop(GraphLoop, values_of)[0].run(iter(numbers(1)), done=0, steps=1)

    def one():
        loop, _ = make_loop(GraphLoop, values_of)
        for size in range(1, 8):
            loop.run(iter(numbers(1).batch(size, drop_remainder=True).repeat()), done=0, steps=0)

    assert retracing_warnings(many) == []
    assert retracing_warnings(one) != []
