"""Global means: what counts, how much, and in which precision."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean


def mean_of(mean):
    total, weight = mean.sums()
    return float(total) / float(weight)


def test_plain_values_count_one_each():
    total, weight = Mean(tf.constant([[1.0, 2.0], [3.0, 6.0]])).sums()
    assert (float(total), float(weight)) == (12.0, 4.0)


def test_scalar_counts_once():
    total, weight = Mean(tf.constant(3.0)).sums()
    assert (float(total), float(weight)) == (3.0, 1.0)


def test_weights_of_rows_reach_every_element_of_the_row():
    total, weight = Mean(tf.constant([[1.0, 2.0], [3.0, 6.0]]), tf.constant([1.0, 0.5])).sums()
    assert (float(total), float(weight)) == (1 + 2 + 1.5 + 3, 2 * 1 + 2 * 0.5)


def test_integer_and_boolean_weights():
    assert mean_of(Mean([2, 4, 9], tf.constant([1, 1, 0]))) == 3.0
    assert mean_of(Mean([2.0, 4.0, 9.0], tf.constant([True, True, False]))) == 3.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_value_of_weight_zero_does_not_count_whatever_it_is(value):
    total, weight = Mean(tf.constant([1.0, value]), tf.constant([1.0, 0.0])).sums()
    assert (float(total), float(weight)) == (1.0, 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradient_of_weight_zero_is_zero_whatever_the_value(value):
    values = tf.constant([1.0, value])
    with tf.GradientTape() as tape:
        tape.watch(values)
        total, _ = Mean(values, tf.constant([2.0, 0.0])).sums()
    assert list(tape.gradient(total, values).numpy()) == [2.0, 0.0]


def test_an_infinite_slope_at_weight_zero_needs_a_harmless_argument():
    x, weights = tf.constant([1.0, 0.0]), tf.constant([1.0, 0.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        bare, _ = Mean(tf.math.log(x), weights).sums()
        guarded, _ = Mean(tf.math.log(tf.where(weights > 0, x, 1.0)), weights).sums()
    assert float(bare) == float(guarded) == 0.0
    assert np.isnan(tape.gradient(bare, x)[1])
    assert list(tape.gradient(guarded, x).numpy()) == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_thousand_ones_in_half_precision_add_up_to_thousand(dtype):
    total, weight = Mean(tf.ones([1000, 10], dtype), tf.ones([1000], dtype)).sums()
    assert (float(total), float(weight)) == (10000.0, 10000.0)


def test_float64_keeps_its_precision():
    total, _ = Mean(tf.constant([1.0, 1e-12], tf.float64)).sums()
    assert total.dtype == tf.float64
    assert float(total) == 1.0 + 1e-12


def test_masked_leaves_rows_out():
    mean = Mean(tf.constant([[1.0, 3.0], [100.0, 100.0]])).masked(tf.constant([1.0, 0.0]))
    assert [float(part) for part in mean.sums()] == [4.0, 2.0]


def test_masked_multiplies_weights():
    mean = Mean(tf.constant([1.0, 2.0, 3.0]), tf.constant([0.5, 2.0, 7.0])).masked(tf.constant([1.0, 1.0, 0.0]))
    assert [float(part) for part in mean.sums()] == [4.5, 2.5]


def test_masked_scalar_is_refused():
    with pytest.raises(ValueError, match=r"one value per example"):
        Mean(tf.constant(1.0)).masked(tf.constant([1.0]))


def test_plus_moves_the_mean_by_the_scalar():
    values, weights = tf.constant([1.0, 5.0]), tf.constant([3.0, 1.0])
    assert mean_of(Mean(values, weights).plus(10.0)) == pytest.approx(2.0 + 10.0)


def test_weights_of_a_higher_rank_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 1\) do not fit values of shape \(2,\)"):
        Mean(tf.constant([1.0, 2.0]), tf.ones([2, 1]))


def test_no_elements():
    total, weight = Mean(tf.zeros([0, 3])).sums()
    assert (float(total), float(weight)) == (0.0, 0.0)


def test_static_weight_is_known_for_unweighted_static_shapes_only():
    assert Mean(tf.zeros([4, 3])).static_weight() == 12
    assert Mean(tf.zeros([4]), tf.ones([4])).static_weight() is None

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def traced(values):
        assert Mean(values).static_weight() is None
        return Mean(values).sums()[1]

    assert float(traced(np.zeros(5, np.float32))) == 5.0
