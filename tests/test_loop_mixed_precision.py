"""Half precision in the model, float32 in every sum, and a loss scale that comes and goes unseen."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def batches(*arrays, size=8):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(size)


def dense(optimizer="adam", metrics=()):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([layers.Dense(8, activation="relu", input_shape=(3,)), layers.Dense(2)])
    model.compile(optimizer, "mse", metrics=list(metrics))
    return model


@pytest.mark.parametrize("replicas", [1, 2])
def test_thousand_ones_in_bfloat16(runtimes, replicas):
    # 1000 outputs of 1000 examples are all 1 off. Added up in bfloat16, 1000 ones are 256.
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    with runtimes(replicas).scope():
        model = tf.keras.Sequential([layers.Dense(1000, kernel_initializer="zeros", input_shape=(1,))])
        assert model.compute_dtype == "bfloat16"
        model.compile(tf.keras.optimizers.SGD(0.0), "mae", metrics=["mae", "mse"])
    data = batches(np.ones([1000, 1], np.float32), np.ones([1000, 1000], np.float32), size=1000)
    loop = TrainLoop(model)
    assert loop.fit(data).history == {"loss": [1.0], "mae": [1.0], "mse": [1.0]}
    assert loop.evaluate(data) == {"loss": 1.0, "mae": 1.0, "mse": 1.0}


def test_labels_are_not_rounded_to_bfloat16():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = tf.keras.Sequential([layers.Dense(1, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(tf.keras.optimizers.SGD(0.0), "mae", metrics=["mae"])
    history = TrainLoop(model).fit(batches(np.ones([2, 1], np.float32), np.array([[1000.5], [1001.5]], np.float32)))
    assert history.history == {"loss": [1001.0], "mae": [1001.0]}


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_training_follows_float32(runtimes, policy):
    data = batches(numbers(16, 3), numbers(16, 2, seed=1))
    expected = TrainLoop(dense()).fit(data, epochs=3).history["loss"]
    tf.keras.mixed_precision.set_global_policy(policy)
    with runtimes(2).scope():
        model = dense()
    loop = TrainLoop(model, settings=LoopSettings(clip_norm=10.0))
    history = loop.fit(data, epochs=3).history
    assert history["loss"] == pytest.approx(expected, rel=2e-2)
    assert all(variable.dtype == tf.float32 for variable in model.trainable_variables)
    assert 0.1 < history["gradient_norm"][0] < 10  # Not that of the scaled loss.


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("accumulate_steps", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_overflow_skips_the_step_and_halves_the_scale(runtimes, replicas, accumulate_steps):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    with runtimes(replicas).scope():
        model = dense()
    optimizer = model.optimizer
    assert isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    before = model.get_weights()
    scale = float(optimizer.loss_scale)
    x, y = numbers(24, 3), numbers(24, 2, seed=1)
    y[3] = 1e6  # Its gradient does not fit into float16.
    seen = []

    class Watch(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((float(optimizer.loss_scale), int(optimizer.iterations.numpy()), model.get_weights()))

    settings = LoopSettings(steps_per_loop=1, accumulate_steps=accumulate_steps)
    loop = TrainLoop(model, settings=settings)
    loop.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True), callbacks=[Watch()])
    assert [state[:2] for state in seen] == [(scale / 2, 1), (scale / 2, 2), (scale / 2, 3)]  # Keras counts it too.
    for got, want in zip(seen[0][2], before):
        np.testing.assert_array_equal(got, want)
    assert not np.array_equal(seen[1][2][0], before[0])
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())
    assert int(loop.step) == 3


def test_small_gradients_survive_float16(runtimes):
    # The gradient by the weight is 2 * 2^-13 * 2^-13 = 2^-25, which is 0 in float16; times a scale of 2^15 it is not.
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    with runtimes(2).scope():
        model = tf.keras.Sequential([layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(1.0), "mse")
    small = np.full([4, 1], 2.0**-13, np.float32)
    TrainLoop(model).fit(batches(small, small))
    assert float(model.get_weights()[0]) == pytest.approx(2.0**-25, rel=1e-3)


def test_float16_in_a_compiled_model_follows_keras():
    # Keras's own loss is a float16 mean, ours a float32 one: the difference is its rounding.
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    data = batches(numbers(16, 3), numbers(16, 2, seed=1))
    model, twin = dense(metrics=["mae"]), dense(metrics=["mae"])
    expected = twin.fit(data, epochs=2, verbose=0).history
    found = TrainLoop(model).fit(data, epochs=2).history
    for name in expected:
        assert found[name] == pytest.approx(expected[name], rel=2e-3)
    np.testing.assert_allclose(model.get_weights()[0], twin.get_weights()[0], atol=2e-3)


def test_saturated_probabilities_keep_their_logits_in_bfloat16():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = tf.keras.Sequential(
        [layers.Dense(2, activation="softmax", kernel_initializer=tf.constant_initializer([[64, 0]]), input_shape=(1,))]
    )
    name = "sparse_categorical_crossentropy"
    model.compile(tf.keras.optimizers.SGD(0.0), name, metrics=[name])
    data = batches(np.ones([2, 1], np.float32), np.array([1, 1]))
    assert TrainLoop(model).evaluate(data) == {"loss": 64.0, name: 64.0}
