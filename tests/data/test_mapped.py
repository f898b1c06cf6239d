"""Functions over batches and examples, whose randomness is that of (seed, epoch, example)."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.order import example_seeds
from tpuloop.data.shard import Shard


def drawn(number, seed):
    """An example and what its seed draws."""
    return number, tf.random.stateless_uniform([], seed, maxval=2**30, dtype=tf.int32)


def drawn_at_once(numbers, seeds):
    return numbers, tf.map_fn(lambda seed: drawn(0, seed)[1], seeds, fn_output_signature=tf.int32)


def rows(batches):
    return [(int(number), int(draw)) for numbers, draws in batches for number, draw in zip(numbers, draws)]


@pytest.fixture(params=["one by one", "at once"])
def source(request):
    numbers = ArraySource(np.arange(20))
    if request.param == "one by one":
        return numbers.map_examples(drawn)
    return numbers.map_seeded_batches(drawn_at_once)


def test_draws_are_those_of_seed_epoch_and_example(source):
    whole = rows(source.batches(batch_size=4, seed=5).take(15))
    for place, (number, draw) in enumerate(whole):
        seed = example_seeds(tf.constant(place // 20, tf.int64), tf.constant(number, tf.int64), seed=5)
        assert draw == int(drawn(number, seed)[1])
    assert len({draw for _, draw in whole}) == 60  # No example draws twice the same, nor as another one.
    # As a run that goes on, in the middle of an epoch.
    assert rows(source.batches(batch_size=4, seed=5, position=28).take(8)) == whole[28:]
    # As hosts, each of which draws for its rows.
    for host in range(2):
        assert rows(source.batches(batch_size=4, seed=5, shard=Shard(host, 2)).take(15)) == whole[host::2]
    assert not {draw for _, draw in whole} & {draw for _, draw in rows(source.batches(batch_size=4, seed=6).take(15))}


def test_a_pass_draws_the_same_every_time(source):
    one, two = (rows(source.one_pass(batch_size=8)) for _ in range(2))
    assert one == two and [number for number, _ in one] == list(range(20))
    assert [len(numbers) for numbers, _ in source.one_pass(batch_size=8)] == [8, 8, 4]


def test_seeds_are_those_of_splitmix64():
    # Worked out with Python's integers. A run that goes on with another version relies on it.
    def mixed(value):
        value = (value + 1) * 0x9E3779B97F4A7C15 % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    for seed, epoch, example in ((0, 0, 0), (7, 3, 11), (2**40, 2**33, 5)):
        expected = mixed(mixed(epoch + mixed(mixed(seed) + 1)) ^ mixed(example))
        (low, high) = example_seeds(tf.constant([epoch], tf.int64), tf.constant([example], tf.int64), seed=seed)[0]
        assert (int(low) % 2**32) + (int(high) % 2**32) * 2**32 == expected


def test_shapes_stages_and_python_in_functions():
    def doubled(batch):
        if tf.reduce_sum(batch["x"]) >= 0:  # AutoGraph's.
            batch = {"x": tf.stack([batch["x"], batch["x"]], axis=1)}
        else:
            batch = {"x": tf.zeros_like(tf.stack([batch["x"], batch["x"]], axis=1))}
        return batch

    def summed(example, seed):
        total = tf.constant(0, tf.int64)
        for value in example["x"]:
            total += value
        return example["x"], total

    source = ArraySource({"x": np.arange(6)}).map_batches(doubled, name="double").map_examples(summed)
    assert source.size == 6 and [name for name, _ in source.stages()] == ["read", "double", "augment"]
    assert source.element_spec == (tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.int64))
    dataset = source.batches(batch_size=4, seed=0, shard=Shard(0, 2))
    assert dataset.element_spec == (tf.TensorSpec([2, 2], tf.int64), tf.TensorSpec([2], tf.int64))
    (x, total), *_ = source.one_pass(batch_size=6)
    np.testing.assert_array_equal(total, 2 * np.arange(6))
    np.testing.assert_array_equal(x[:, 1], np.arange(6))


def test_what_is_drawn_is_not_cached(source):
    cached = source.cached()
    assert rows(cached.batches(batch_size=4, seed=5).take(10)) == rows(source.batches(batch_size=4, seed=5).take(10))
