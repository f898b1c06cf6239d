"""An update accumulated over parts of a batch is the update of the whole batch."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def model_of(loss="mse"):
    tf.keras.utils.set_random_seed(1)
    ids = tf.keras.Input([2], dtype=tf.int32)
    hidden = layers.Flatten()(layers.Embedding(5, 3)(ids))
    hidden = layers.Dense(4, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.1))(hidden)
    model = tf.keras.Model(ids, layers.Dense(2, dtype=tf.float32)(hidden))
    # Its momentum of an embedding moves only with the rows that a batch uses.
    model.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9), loss, metrics=["mae"], weighted_metrics=["mse"])
    return model


WEIGHTS = np.array([0, 0, 5, 1, 0, 0, 0, 0, 1, 2, 3, 0], np.float32)  # The third part of two replicas' has none.
DATA = (np.random.default_rng(0).integers(0, 5, [12, 2]), numbers(12, 2), WEIGHTS)


def train(runtime, parts, *, kind=TrainLoop, data=DATA, size=12, clip_norm=None, loop_kind="graph", **arguments):
    with runtime.scope():
        model = model_of(**arguments)
    loop = kind(model, settings=LoopSettings(accumulate_steps=parts, clip_norm=clip_norm, loop=loop_kind))
    batches = tf.data.Dataset.from_tensor_slices(data).batch(size, drop_remainder=True).repeat(2)
    history = loop.fit(batches, steps=2, steps_per_epoch=1)
    return model.get_weights(), history.history


def assert_same(found, expected, tolerance=1e-5):
    for got, want in zip(found[0], expected[0]):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance / 10)
    assert list(found[1]) == list(expected[1])
    for name in expected[1]:
        assert found[1][name] == pytest.approx(expected[1][name], rel=tolerance), name


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_weights_clipping_regularisers_and_slices(runtimes, replicas, clip_norm):
    runtime = runtimes(replicas)
    assert_same(train(runtime, 3, clip_norm=clip_norm), train(runtimes(1), 1, clip_norm=clip_norm))


@pytest.mark.parametrize("replicas", [1, 2])
def test_sum_reduction(runtimes, replicas):
    loss = tf.keras.losses.MeanSquaredError(reduction="sum")
    found = train(runtimes(replicas), 3, loss=loss)
    assert_same(found, train(runtimes(1), 1, loss=loss))


class TokenLoop(TrainLoop):
    """A weighted mean of its own, whose weights lie unevenly over the parts."""

    def forward_loss(self, batch, *, training):
        x, y, weights = batch
        values = tf.square(self.model(x, training=training) - y)
        return Mean(values, weights), {"size": Mean(tf.abs(values)), "scaled": Mean(values, weights * 2)}


@pytest.mark.parametrize("replicas", [1, 2])
def test_weighted_mean_of_ones_own(runtimes, replicas):
    found = train(runtimes(replicas), 3, kind=TokenLoop)
    assert_same(found, train(runtimes(1), 1, kind=TokenLoop))
    assert list(found[1])[:3] == ["loss", "size", "scaled"]


def test_no_weight_in_any_part_changes_nothing(runtimes):
    class NoRegulariser(TokenLoop):
        def _loss_and_means(self, batch, *, training):
            return self.forward_loss(batch, training=training)

    data = (*DATA[:2], np.zeros_like(WEIGHTS))
    weights, _ = train(runtimes(2), 3, kind=NoRegulariser, data=data)
    for got, want in zip(weights, model_of().get_weights()):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_mixed_float16(runtimes, replicas):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    found = train(runtimes(replicas), 3)
    expected = train(runtimes(1), 1)
    assert_same(found, expected, tolerance=2e-3)  # Float16 has 11 bits.


def test_a_batch_that_does_not_split_is_named(runtimes):
    with pytest.raises(ValueError, match=r"accumulate_steps=5 does not divide a replica's batch of 6: choose a global"):
        train(runtimes(2), 5)


def test_a_batch_of_unknown_size_is_named(runtimes):
    loop = TrainLoop(model_of(), settings=LoopSettings(accumulate_steps=2))
    with pytest.raises(ValueError, match=r"accumulate_steps=2 .* unknown size"):
        loop.fit(tf.data.Dataset.from_tensor_slices(DATA).batch(12))


def test_a_train_step_of_ones_own_is_refused():
    class Own(TrainLoop):
        def train_step(self, batch):
            return {"loss": tf.constant(0.0)}

    with pytest.raises(ValueError, match=r"accumulate_steps=2 has no effect on a train_step of your own"):
        Own(model_of(), settings=LoopSettings(accumulate_steps=2))


def test_eager_replicas_with_unequal_shares(runtimes):
    # 10 examples on 3 replicas are shares of 4, 4 and 2, each in two parts.
    data = tuple(array[:10] for array in DATA)
    found = train(runtimes(3), 2, data=data, size=10, loop_kind="host")
    assert_same(found, train(runtimes(1), 1, data=data, size=10))
