"""From a loss to updated variables on one replica, with numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.engine.optimize import apply_summed, minimize

X = tf.constant([[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]])


def update(*, weights=None, optimizer=None, **arguments):
    """One update of w = 0 for the loss x w; returns the variable and the norm."""
    w = tf.Variable(tf.zeros([2, 1]))
    optimizer = tf.keras.optimizers.SGD(1.0) if optimizer is None else optimizer
    with tf.GradientTape() as tape:
        loss = Mean(tf.squeeze(X @ w, -1), weights)
    norm = minimize(loss, tape=tape, variables=[w], optimizer=optimizer, **arguments)
    return w.numpy()[:, 0], norm


def test_mean_of_all():
    w, norm = update()
    np.testing.assert_allclose(w, [-6 / 3, -7 / 3])
    assert norm is None


def test_weighted_mean():
    w, _ = update(weights=tf.constant([3.0, 1.0, 0.0]))
    np.testing.assert_allclose(w, [-3 / 4, -2 / 4])


def test_no_weight_at_all_changes_nothing():
    w, _ = update(weights=tf.zeros([3]))
    np.testing.assert_array_equal(w, [0, 0])


def test_value_of_weight_zero_that_is_nan_does_not_reach_the_gradient():
    w = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = Mean(tf.stack([w[0], tf.constant(float("nan"))]), tf.constant([1.0, 0.0]))
    minimize(loss, tape=tape, variables=[w], optimizer=tf.keras.optimizers.SGD(1.0))
    np.testing.assert_array_equal(w.numpy(), [0.0])


def test_clip_norm():
    w, norm = update(weights=tf.constant([3.0, 2.0, 0.0]), clip_norm=0.5)  # The gradient is (3, 4) / 5.
    np.testing.assert_allclose(w, [-0.3, -0.4], rtol=1e-6)
    assert float(norm) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_loss_scale_is_taken_off_before_clipping(scale):
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(1.0), dynamic=False, initial_scale=scale
    )
    w, norm = update(weights=tf.constant([3.0, 2.0, 0.0]), optimizer=optimizer, clip_norm=0.5)
    np.testing.assert_allclose(w, [-0.3, -0.4], rtol=1e-6)
    assert float(norm) == pytest.approx(1.0)


def test_slices_are_scaled_and_clipped_as_the_dense_gradient_would_be():
    table = tf.Variable(tf.zeros([4, 1]))
    # Row 1 in two parts: 1 + 2 = 3.
    slices = tf.IndexedSlices(tf.constant([[1.0], [4.0], [2.0]]), tf.constant([1, 3, 1]), tf.constant([4, 1]))
    norm = apply_summed([slices], [table], optimizer=tf.keras.optimizers.SGD(1.0), factor=2.0, clip_norm=5.0)
    assert float(norm) == pytest.approx(10.0)
    np.testing.assert_allclose(table.numpy()[:, 0], [0, -3, 0, -4], rtol=1e-6)


def test_two_updates_from_one_persistent_tape():
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        first, second = Mean(a * b), Mean(a + 3.0 * b)
    for loss, variable in ((first, a), (second, b)):
        minimize(loss, tape=tape, variables=[variable], optimizer=tf.keras.optimizers.SGD(1.0))
    assert (float(a), float(b)) == (1.0 - 2.0, 2.0 - 3.0)
