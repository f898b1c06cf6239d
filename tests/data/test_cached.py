"""What stays of a source's draws and weights when it is cached."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.mixture import MixtureSource


def drawn(example, seed):
    return tf.random.stateless_uniform([], seed) + 0 * tf.cast(example, tf.float32)


def drawn_at_once(batch, seeds):
    return tf.map_fn(lambda pair: drawn(*pair), (batch, seeds), fn_output_signature=tf.float32)


def stream(source, batches):
    dataset = source.batches(batch_size=100, seed=0).take(batches)
    return np.concatenate(list(dataset.as_numpy_iterator()))


@pytest.mark.parametrize(
    "augmented",
    [lambda source: source.map_examples(drawn), lambda source: source.map_seeded_batches(drawn_at_once)],
    ids=["examples", "seeded batches"],
)
def test_draws_stay_draws_below_a_function_of_batches(augmented):
    source = augmented(ArraySource(np.arange(100))).map_batches(lambda batch: batch * 2).cached()
    assert len(np.unique(stream(source, 5))) > 490


def test_a_function_of_batches_alone_is_done_once():
    source = ArraySource(np.arange(100)).map_batches(lambda batch: batch * 2).cached()
    assert isinstance(source, ArraySource)
    assert sorted(stream(source, 1)) == list(range(0, 200, 2))


def test_a_mixture_keeps_its_weights_and_draws():
    augmented = ArraySource(np.arange(100)).map_examples(drawn)
    constant = ArraySource(np.full(100, -1, np.float32))
    mixture = MixtureSource([augmented, constant], weights=[9, 1])
    cached = mixture.cached()
    assert cached.shares == mixture.shares and cached.size == 200
    values = stream(cached, 20)
    assert abs((values == -1).mean() - 0.1) < 0.01
    assert len(np.unique(values[values >= 0])) > 1750
