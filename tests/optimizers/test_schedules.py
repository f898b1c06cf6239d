"""Learning rates by hand, and what makes no schedule."""

import json
import math

import pytest
import tensorflow as tf

from tpuloop.errors import UsageError
from tpuloop.optimizers.schedule_settings import ScheduleSettings
from tpuloop.optimizers.schedules import Warmup, make_schedule


def rates(fields, steps, *, peak=8.0, run_steps=12):
    schedule = make_schedule(ScheduleSettings.of(fields), peak=peak, run_steps=run_steps)
    return [float(schedule(tf.constant(step, tf.int64))) for step in steps]


def test_the_warm_up_is_the_share_of_steps_done_and_the_decay_begins_when_it_ends():
    linear = {"name": "linear", "warmup_steps": 4}
    assert rates(linear, [0, 1, 2, 3, 4, 5, 8, 11, 12, 13]) == [0.0, 2.0, 4.0, 6.0, 8.0, 7.0, 4.0, 1.0, 0.0, 0.0]


def test_cosine_ends_at_its_share_of_the_peak():
    cosine = {"name": "cosine", "warmup_steps": 4, "end_factor": 0.25}
    quarter = 8 * (0.25 + 0.75 * (1 + math.cos(math.pi / 4)) / 2)
    assert rates(cosine, [2, 4, 6, 8, 12, 100]) == pytest.approx([4.0, 8.0, quarter, 5.0, 2.0, 2.0])


def test_polynomial_decay_of_a_length_of_its_own():
    polynomial = {"name": "polynomial", "power": 2, "decay_steps": 4, "end_factor": 0.5}
    # 4 + 4 * (1 - t)**2 for t = 0, 1/4, 1/2, 1.
    assert rates(polynomial, [0, 1, 2, 4, 5]) == pytest.approx([8.0, 6.25, 5.0, 4.0, 4.0])


def test_a_factor_counts_from_its_boundary_on():
    piecewise = {"name": "piecewise", "warmup_steps": 2, "boundaries": [5, 7], "factors": [0.5, 0.125]}
    assert rates(piecewise, [0, 1, 2, 4, 5, 6, 7, 50]) == [0.0, 4.0, 8.0, 8.0, 4.0, 4.0, 1.0, 1.0]


def test_a_constant_rate_is_a_schedule_only_while_it_warms_up():
    assert rates({"name": "constant", "warmup_steps": 4}, [0, 1, 4, 1000]) == [0.0, 2.0, 8.0, 8.0]
    assert make_schedule(ScheduleSettings("constant"), peak=8.0) == 8.0


def test_a_run_that_ends_in_its_warm_up():
    assert rates({"name": "cosine", "warmup_steps": 1000}, [0, 10], run_steps=10) == pytest.approx([0.0, 0.08])


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_single_steps_are_told_apart_beyond_those_that_float32_holds(name):
    far = 2**25  # Where float32 goes in steps of 4.
    schedule = make_schedule(ScheduleSettings(name, warmup_steps=far + 1, decay_steps=4), peak=1.0)
    assert [float(schedule(far + 1 + t)) for t in (0, 2, 4)] == pytest.approx([1.0, 0.5, 0.0], abs=1e-7)
    long = make_schedule(ScheduleSettings("linear"), peak=1.0, run_steps=2**40)
    assert float(long(2**39)) == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "cosine", "warmup_steps": 3, "end_factor": 0.1},
        {"name": "polynomial", "power": 0.5},
        {"name": "piecewise", "boundaries": [4], "factors": [0.1]},
        {"name": "constant", "warmup_steps": 3},
    ],
)
def test_an_optimizer_keeps_its_schedule_through_its_config(fields):
    schedule = make_schedule(ScheduleSettings.of(fields), peak=0.5, run_steps=12)
    for make in (tf.keras.optimizers.SGD, tf.keras.optimizers.experimental.SGD):
        config = json.loads(json.dumps(make(schedule).get_config()))
        again = make.from_config(config)
        rate = again._learning_rate if hasattr(again, "_learning_rate") else again._get_hyper("learning_rate")
        assert isinstance(rate, Warmup)
        assert [float(rate(step)) for step in range(14)] == [float(schedule(step)) for step in range(14)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("cosine", "schedule must be a mapping with a name, such as {'name': 'cosine'}; it is 'cosine'"),
        ({"warmup_steps": 3}, "schedule must be a mapping with a name"),
        ({"name": "cosin"}, "schedule 'cosin' is unknown: use one of constant, .*; did you mean 'cosine'?"),
        ({"name": "cosine", "warmup": 3}, "schedule 'cosine' takes no argument 'warmup'; did you mean 'warmup_steps'?"),
        ({"name": "cosine", "power": 2}, "schedule 'cosine' takes no argument 'power'"),
        ({"name": "linear", "warmup_steps": -1}, "warmup_steps must be an integer of at least 1, or 0; it is -1"),
        ({"name": "linear", "warmup_steps": False}, "warmup_steps must be an integer of at least 1, or 0; it is False"),
        ({"name": "linear", "warmup_steps": 0.5}, "warmup_steps must be an integer"),
        ({"name": "linear", "decay_steps": 0}, "schedule 'linear': decay_steps must be an integer of at least 1"),
        ({"name": "linear", "end_factor": 2}, "end_factor must be a number from 0 to 1; it is 2"),
        ({"name": "linear", "end_factor": float("nan")}, "end_factor must be a number from 0 to 1; it is nan"),
        ({"name": "polynomial", "power": "2"}, "power must be a positive number; it is '2'"),
        ({"name": "piecewise"}, r"boundaries must be a list, and not an empty one; it is \(\)"),
        ({"name": "piecewise", "boundaries": 3, "factors": [1]}, "boundaries must be a list"),
        ({"name": "piecewise", "boundaries": [3, 3], "factors": [1, 1]}, r"boundaries must rise.*\[3, 3\]"),
        ({"name": "piecewise", "boundaries": [3], "factors": [1], "warmup_steps": 3}, "the warm-up of 3 steps"),
        ({"name": "piecewise", "boundaries": [3.5], "factors": [1]}, "boundaries must be an integer"),
        (
            {"name": "piecewise", "boundaries": [3], "factors": [-1]},
            "factors must be a number of at least 0; one is -1",
        ),
        ({"name": "piecewise", "boundaries": [3], "factors": [1, 2]}, "as many as the boundaries, 1; they are 2"),
    ],
)
def test_what_makes_no_schedule_is_named(fields, message):
    with pytest.raises(UsageError, match=message):
        ScheduleSettings.of(fields)


def test_the_end_of_a_decay_must_be_known():
    with pytest.raises(UsageError, match="schedule 'cosine': decay_steps must be given"):
        make_schedule(ScheduleSettings("cosine"), peak=1.0)
