"""The learning rate of every kind of optimizer that Keras has."""

import pytest
import tensorflow as tf

from tpuloop.engine.learning_rate import held_learning_rate, learning_rate_schedule

optimizers = tf.keras.optimizers
LossScaleOptimizer = tf.keras.mixed_precision.LossScaleOptimizer

SCHEDULE = optimizers.schedules.PolynomialDecay(1.0, decay_steps=10, end_learning_rate=0.0)

every_kind = pytest.mark.parametrize(
    "made",
    [
        optimizers.SGD,
        optimizers.experimental.SGD,
        lambda rate: LossScaleOptimizer(optimizers.SGD(rate)),
        lambda rate: LossScaleOptimizer(optimizers.SGD(rate), dynamic=False, initial_scale=8),
        lambda rate: tf.keras.mixed_precision.LossScaleOptimizer(optimizers.experimental.SGD(rate)),
    ],
)


@every_kind
def test_a_schedule_is_found(made):
    optimizer = made(SCHEDULE)
    assert learning_rate_schedule(optimizer) is SCHEDULE
    assert held_learning_rate(optimizer) is SCHEDULE


@every_kind
def test_a_schedule_gives_the_rate_that_the_step_takes(made):
    optimizer, variable = made(SCHEDULE), tf.Variable(0.0)
    for step in range(3):
        before = float(variable)
        rate = float(learning_rate_schedule(optimizer)(optimizer.iterations))
        assert rate == pytest.approx(1 - step / 10)
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
        assert before - float(variable) == pytest.approx(rate)


@every_kind
def test_a_number_is_no_schedule(made):
    optimizer = made(0.25)
    assert learning_rate_schedule(optimizer) is None
    assert float(held_learning_rate(optimizer)) == 0.25


class WithoutRate(optimizers.experimental.Optimizer):
    def __init__(self):
        super().__init__(name="without_rate")


@pytest.mark.parametrize("optimizer", [None, object(), WithoutRate()])
def test_what_has_no_learning_rate(optimizer):
    assert learning_rate_schedule(optimizer) is None
    assert held_learning_rate(optimizer) is None
