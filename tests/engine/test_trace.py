"""Step traces and means over them, against numbers worked out by hand."""

import math

import numpy as np
import pytest

from tpuloop.engine.trace import LastValues, RunningMeans, StepTrace


def trace_of(totals, weights, first_step=1):
    count = len(totals)
    return StepTrace(
        first_step=first_step,
        totals={"loss": np.array(totals, np.float32)},
        weights={"loss": np.array(weights, np.float32)},
        asked=np.arange(count, dtype=np.float64),
        came=np.arange(count, dtype=np.float64),
        ended=np.arange(count, dtype=np.float64),
    )


def test_from_records_tells_totals_from_weights_and_a_step_ends_where_the_next_asks():
    sums = np.array([[1, 2, 10, 20], [3, 4, 30, 40]], np.float32)
    clock = np.array([[5.0, 6.0], [7.0, 8.5]])
    trace = StepTrace.from_records(first_step=11, names=["loss", "acc"], sums=sums, clock=clock, ended=9.0)
    assert len(trace) == 2
    assert trace.last_step == 12
    assert trace.steps.tolist() == [11, 12]
    assert trace.totals["acc"].tolist() == [2, 4]
    assert trace.weights["loss"].tolist() == [10, 30]
    assert trace.values("acc") == pytest.approx([0.1, 0.1])
    assert trace.asked.tolist() == [5.0, 7.0]
    assert trace.came.tolist() == [6.0, 8.5]
    assert trace.ended.tolist() == [7.0, 9.0]


def test_from_records_of_no_steps():
    trace = StepTrace.from_records(
        first_step=4, names=["loss"], sums=np.zeros([0, 2], np.float32), clock=np.zeros([0, 2]), ended=9.0
    )
    assert len(trace) == 0
    assert trace.last_step == 3
    assert trace.ended.tolist() == []


def test_value_of_a_step_where_nothing_counted_is_nan():
    values = trace_of([6.0, 0.0], [2.0, 0.0]).values("loss")
    assert values[0] == 3.0
    assert math.isnan(values[1])


def test_running_mean_is_a_sum_over_a_sum_and_no_mean_of_means():
    means = RunningMeans()
    means.add(trace_of([6.0, 1.0], [3.0, 1.0]))
    means.add(trace_of([8.0], [1.0], first_step=3))
    assert means.result() == {"loss": 15.0 / 5.0}


def test_running_mean_does_not_lose_small_values_in_a_long_epoch():
    means = RunningMeans()
    means.add(trace_of([2.0**24], [1.0]))
    for _ in range(4):
        means.add(trace_of([1.0], [0.0]))  # In float32, 2**24 + 1 is 2**24.
    assert means.result()["loss"] == 2.0**24 + 4


def test_reset_and_nothing_counted():
    means = RunningMeans()
    means.add(trace_of([6.0], [3.0]))
    means.reset()
    assert means.result() == {}
    means.add(trace_of([0.0], [0.0]))
    assert math.isnan(means.result()["loss"])


@pytest.mark.parametrize("kind", [RunningMeans, LastValues])
def test_results_are_plain_floats(kind):
    means = kind()
    means.add(trace_of([6.0], [3.0]))
    assert type(means.result()["loss"]) is float


def test_last_values_are_those_of_the_last_step():
    values = LastValues()
    values.add(trace_of([6.0, 8.0], [3.0, 2.0]))
    values.add(trace_of([], [], first_step=3))
    assert values.result() == {"loss": 4.0}
    values.reset()
    assert values.result() == {}
