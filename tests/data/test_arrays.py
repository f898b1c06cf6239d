"""Arrays as a stream: every epoch is a permutation, and any place of it can be entered."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource, is_arrays, without_none
from tpuloop.data.checks import DataError
from tpuloop.data.order import epoch_orders
from tpuloop.data.shard import Shard
from tpuloop.data.source import as_source


def stream(source, *, batch_size, seed=0, position=0, batches):
    return [
        batch.numpy() for batch in source.batches(batch_size=batch_size, seed=seed, position=position).take(batches)
    ]


@pytest.mark.parametrize("size, batch_size", [(1, 1), (2, 3), (10, 3), (7, 7), (100, 8), (1500, 64), (5, 2000)])
def test_every_epoch_is_a_permutation_of_its_own(size, batch_size):
    epochs = 4
    count = -(-size * epochs // batch_size)
    order = np.concatenate(stream(ArraySource(np.arange(size)), batch_size=batch_size, batches=count))[: size * epochs]
    by_epoch = order.reshape([epochs, size])
    for epoch in by_epoch:
        assert sorted(epoch) == list(range(size))
    if size >= 100:
        assert len({tuple(epoch) for epoch in by_epoch}) == epochs


@pytest.mark.parametrize("shuffle", [True, False])
def test_entering_anywhere_equals_the_unbroken_stream(shuffle):
    source = ArraySource(np.arange(37), shuffle=shuffle)
    whole = np.concatenate(stream(source, batch_size=5, seed=3, batches=120))
    for position in (0, 1, 5, 36, 37, 38, 74, 123, 400):
        batches = stream(source, batch_size=5, seed=3, position=position, batches=30)
        np.testing.assert_array_equal(np.concatenate(batches), whole[position : position + 150])


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_orders_keep_nothing_of_the_stored_one_nor_of_each_other(size):
    # A correlation of permutations has the standard deviation 1 / sqrt(size - 1); of 5 x 100, none is beyond 4.5 of it.
    for seed in range(5):
        orders = epoch_orders(tf.range(100, dtype=tf.int64), seed=seed, size=size).numpy()
        assert np.all(np.sort(orders, axis=1) == np.arange(size))
        others = np.concatenate([[np.arange(size)], orders[:-1]])
        stored = [np.corrcoef(order, np.arange(size))[0, 1] for order in orders]
        before = [np.corrcoef(order, other)[0, 1] for order, other in zip(orders, others)]
        assert np.max(np.abs(stored)) < 4.5 / np.sqrt(size - 1)
        assert np.max(np.abs(before)) < 4.5 / np.sqrt(size - 1)
        counts = np.bincount(orders[:, 0] * 10 // size, minlength=10)  # Each tenth comes first as often.
        assert np.all(counts <= 25)


def test_the_order_is_that_of_splitmix64():
    # Worked out with Python's integers. A run that goes on elsewhere, or with another version, relies on it.
    orders = epoch_orders(tf.constant([0, 7], tf.int64), seed=3, size=8)
    assert orders.numpy().tolist() == [[7, 6, 4, 5, 0, 2, 3, 1], [3, 7, 1, 6, 0, 4, 2, 5]]


def test_a_far_position_is_entered_at_once():
    source = ArraySource(np.arange(10))
    position = 10 * (2**31 + 7)  # More epochs than 32 bits count.
    batch = stream(source, batch_size=10, position=position, batches=1)[0]
    assert sorted(batch) == list(range(10))


def test_the_order_is_that_of_the_seed():
    source = ArraySource(np.arange(50))
    orders = [tuple(stream(source, batch_size=50, seed=seed, batches=1)[0]) for seed in (0, 1, 2**31, 2**31 + 1, 0)]
    assert len(set(orders)) == 4
    assert orders[0] == orders[-1]


def test_without_shuffle_batches_run_across_the_edge_of_an_epoch():
    batches = stream(ArraySource(np.arange(5), shuffle=False), batch_size=3, batches=4)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]


def test_structures_stay_together_and_have_static_shapes():
    ids = np.arange(20)
    source = ArraySource(({"ids": ids, "square": (ids**2)[:, None]}, [ids * 2, ids * 3.0]))
    dataset = source.batches(batch_size=4, seed=1)
    (features, labels) = dataset.element_spec
    assert features["square"] == tf.TensorSpec([4, 1], tf.int64)
    assert labels == (tf.TensorSpec([4], tf.int64), tf.TensorSpec([4], tf.float32))
    assert source.element_spec[0]["square"] == tf.TensorSpec([1], tf.int64)
    for features, (double, triple) in dataset.take(5):
        np.testing.assert_array_equal(features["square"][:, 0], features["ids"] ** 2)
        np.testing.assert_array_equal(double, features["ids"] * 2)
        np.testing.assert_array_equal(triple, features["ids"].numpy() * 3)


def test_one_pass_is_in_order_with_a_short_end():
    batches = [batch.numpy().tolist() for batch in ArraySource(np.arange(5)).one_pass(batch_size=2)]
    assert batches == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("size, batch_size, expected", [(10, 3, 4), (9, 3, 3), (1, 64, 1)])
def test_steps_per_epoch(size, batch_size, expected):
    assert ArraySource(np.arange(size)).steps_per_epoch(batch_size) == expected


def test_double_precision_becomes_single_as_in_keras():
    source = ArraySource((np.zeros([3, 2]), np.zeros(3, np.float16), np.zeros(3, np.int64)))
    assert [leaf.dtype for leaf in source.element_spec] == [tf.float32, tf.float16, tf.int64]


def test_arrays_are_copied_once_and_held_once(monkeypatch):
    x, words = np.arange(12.0).reshape([6, 2]), np.array(["a", "b", "c", "d", "e", "f"])
    source = ArraySource((x, words), shuffle=False)
    constant, copied = tf.constant, []

    def watched(value, *args, **kwargs):
        copied.extend([value] if isinstance(value, np.ndarray) and len(value) == 6 else [])
        return constant(value, *args, **kwargs)

    monkeypatch.setattr(tf, "constant", watched)
    for position in (0, 6):
        (batch,) = source.batches(batch_size=6, seed=0, position=position).take(1)
        np.testing.assert_array_equal(batch[0], np.arange(12).reshape([6, 2]))
        ((one_pass, text),) = source.one_pass(batch_size=6)
        np.testing.assert_array_equal(one_pass, np.arange(12).reshape([6, 2]))
        assert b"".join(text.numpy()) == b"abcdef"
        x += 100  # Not seen from the first use on.
    assert len(copied) == 2
    assert source.element_spec == (tf.TensorSpec([2]), tf.TensorSpec([], tf.string))
    assert np.shares_memory(source.arrays[0], np.asarray(source._tensors()[0]))


def test_tensors_that_a_graph_asks_for_first_serve_outside_it():
    source = ArraySource(np.arange(4, dtype=np.float32), shuffle=False)

    @tf.function
    def first():
        return source.one_pass(batch_size=4).reduce(0.0, lambda total, x: total + tf.reduce_sum(x))

    assert float(first()) == 6
    assert [list(batch.numpy()) for batch in source.one_pass(batch_size=4)] == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "arrays, message",
    [
        ((np.zeros(3), np.zeros(4)), r"one first dimension, the number of examples; theirs are \[3, 4\]"),
        ((np.zeros(3), np.array(1.0)), r"one first dimension"),
        (np.zeros([0, 3]), r"the data is empty: the arrays hold 0 examples"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(ValueError, match=message):
        ArraySource(arrays)


def test_what_counts_as_arrays():
    assert is_arrays((np.zeros(3), {"a": tf.zeros(3), "b": [tf.Variable([1.0])]}))
    for other in ([], [1.0, 2.0], None, (np.zeros(3), None), "text", tf.data.Dataset.range(3)):
        assert not is_arrays(other)
    source = ArraySource(np.zeros(3))
    assert as_source(source) is source
    assert as_source(tf.data.Dataset.range(3)) is None


def test_arguments_as_in_keras():
    x, y, weights = object(), object(), object()
    assert without_none(x, None, None) is x
    assert without_none(x, y, None) == (x, y)
    assert without_none(x, y, weights) == (x, y, weights)
    assert without_none([x, y], None, None) == ([x, y],)  # Several inputs, not features and labels.


def test_hosts_begin_where_all_of_them_can():
    source = ArraySource(np.arange(10))
    with pytest.raises(DataError, match="4 hosts cannot begin at example 6, which is no multiple of them"):
        source.batches(batch_size=4, seed=0, position=6, shard=Shard(1, 4))
    with pytest.raises(DataError, match="does not divide into 4 hosts: use 4 or 8"):
        source.batches(batch_size=6, seed=0, shard=Shard(1, 4))
    with pytest.raises(DataError, match="there is no shard 4 of 4"):
        Shard(4, 4)
