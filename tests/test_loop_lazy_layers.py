"""Layers that come into being when a model is first called, the random ones among them."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.random.default_rng(0).normal(size=(8, 3, 4)).astype(np.float32)
Y = X.sum(axis=(1, 2), keepdims=False)[:, np.newaxis]


class Attention(tf.keras.Model):
    """Keras makes the dropout of an attention layer, and its weights, at the first call."""

    def __init__(self):
        super().__init__()
        self.attention = tf.keras.layers.MultiHeadAttention(num_heads=2, key_dim=4, dropout=0.5)
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs, training=None):
        return self.out(tf.reduce_mean(self.attention(inputs, inputs, training=training), axis=1))


class Loop(TrainLoop):
    def forward_loss(self, batch, *, training):
        x, y = batch
        return Mean(tf.square(y - self.model(x, training=training)))

    def predict_step(self, batch):
        return self.model(batch[0] if isinstance(batch, tuple) else batch, training=True)  # Monte Carlo dropout.


def make(runtime, settings=None, **arguments):
    tf.keras.utils.set_random_seed(3)
    with runtime.scope():
        return Loop(
            Attention(), optimizer=tf.keras.optimizers.SGD(0.05), runtime=runtime, settings=settings, **arguments
        )


@pytest.mark.parametrize("kind", ["graph", "host"])
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_run_repeats_their_masks(runtimes, tmp_path, kind, replicas):
    settings = LoopSettings(loop=kind, steps_per_loop=2)
    whole = make(runtimes(replicas), settings)
    whole.fit(X, Y, batch_size=4, steps=4)
    first = make(runtimes(replicas), settings, workdir=str(tmp_path))
    first.fit(X, Y, batch_size=4, steps=2)
    second = make(runtimes(replicas), settings, workdir=str(tmp_path))
    second.fit(X, Y, batch_size=4, steps=4)
    for ours, theirs in zip(second.model.get_weights(), whole.model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)


def test_the_masks_differ_from_step_to_step_and_from_seed_to_seed(runtimes):
    losses = []
    for seed in (0, 1):
        loop = make(runtimes(1), LoopSettings(seed=seed))
        loop.optimizer.learning_rate.assign(0.0)
        data = tf.data.Dataset.from_tensors((X, Y)).repeat()
        losses += loop.fit(data, steps_per_epoch=1, epochs=3).history["loss"]
    assert len(set(losses)) == 6


@pytest.mark.parametrize("kind", ["graph", "host"])
def test_a_random_prediction_is_the_same_again(runtimes, kind):
    predictions = [make(runtimes(1), LoopSettings(loop=kind)).predict(X, batch_size=4) for _ in range(2)]
    np.testing.assert_array_equal(*predictions)
    loop = make(runtimes(1), LoopSettings(loop=kind))
    np.testing.assert_array_equal(loop.predict(X, batch_size=4), predictions[0])
    np.testing.assert_array_equal(loop.predict(X, batch_size=4), predictions[0])
