"""Several sources in one stream: exact shares, own epochs, entered anywhere, shared by hosts."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.mixture import MixtureSource
from tpuloop.data.shard import Shard


def of_numbers(start, size):
    return ArraySource(np.arange(start, start + size))


def stream(source, batches, *, batch_size=40, **more):
    return np.concatenate([batch.numpy() for batch in source.batches(batch_size=batch_size, **more).take(batches)])


@pytest.mark.slow
def test_shares_are_exact_in_every_round_and_each_source_has_its_epochs(files, caplog):
    caplog.set_level("INFO", "tpuloop")
    records = files.records([50, 20]).map_batches(lambda batch: tf.strings.to_number(batch, tf.int64))
    source = MixtureSource([of_numbers(1000, 300), records], weights=[3, 1])
    assert source.size == 370 and source.shares == (768, 256)
    assert source.element_spec == tf.TensorSpec([], tf.int64)
    got = stream(source, 77, seed=4)  # Three rounds and a little.
    for number in range(3):
        part = got[number * 1024 : (number + 1) * 1024]
        assert np.sum(part < 1000) == 256
        assert 50 < np.sum(part[:512] < 1000) < 206  # They are mixed.
    # A round holds the next examples of each source's own epochs, so that after each none has come twice more often.
    for number in range(1, 4):
        counts = np.bincount(got[: number * 1024], minlength=1300)
        assert np.ptp(counts[1000:]) <= 1 and np.ptp(counts[:70]) <= 1 and not np.any(counts[70:1000])
    for position in (40, 1000, 1040, 2480):
        np.testing.assert_array_equal(stream(source, 15, seed=4, position=position), got[position : position + 600])
    for host in range(2):
        half = stream(source, 30, seed=4, position=80, shard=Shard(host, 2))
        np.testing.assert_array_equal(half, got[80:1280][host::2])
    assert caplog.messages == ["a mixture on 2 hosts is split by example: each host reads all of its sources"]
    assert np.any(stream(source, 2, seed=5) != got[:80])


@pytest.mark.slow
def test_numbers_and_passes_run_through_all_sources(files):
    records = files.records([4, 3])
    source = MixtureSource([records, files.records([5], text=lambda number: b"%d" % (7 + number))])
    batches = list(source.numbered_pass(batch_size=5))
    assert [len(rows) for rows, _ in batches] == [5, 5, 2]
    assert [int(n) for _, origin in batches for n in origin.numbers] == list(range(12))
    assert [int(text) for rows, _ in batches for text in rows.numpy()] == list(range(12))
    host = list(source.one_pass(batch_size=4, shard=Shard(1, 2)))
    assert [int(text) for rows in host for text in rows.numpy()] == [1, 3, 5, 7, 9, 11]
    assert source.whereabouts(5) == f"{records.files[1].path}, record 1"
    assert source.whereabouts(8).endswith("part-002.tfrecord, record 1")
    for rows, origin in source.numbered_batches(batch_size=12, seed=0).take(4):
        assert [int(text) for text in rows.numpy()] == origin.numbers.numpy().tolist()


@pytest.mark.parametrize(
    "weights, shares",
    [((), (996, 4)), ((1, 1), (512, 512)), ((0.7, 0.3), (714, 306)), ((2**40, 2**40), None)],
)
def test_weights(weights, shares):
    source = MixtureSource([of_numbers(0, 255), of_numbers(0, 1)], weights=weights)
    assert source.shares == (shares or (512, 512))


@pytest.mark.parametrize(
    "sources, weights, says",
    [
        ([], [], "a mixture has 0 sources and 0 weights"),
        ([of_numbers(0, 3)], [1, 2], "a mixture has 1 sources and 2 weights: give one for each"),
        (
            [of_numbers(0, 3)] * 2,
            [1e-9, 1],
            "source 0 of a mixture has 1e-09 of the weight, and the least share is 1/1000",
        ),
        ([of_numbers(0, 3)] * 2, [1, 0], r"must be positive numbers; they are \[1, 0\]"),
        ([of_numbers(0, 3)] * 2, [1, float("nan")], "must be positive numbers"),
        ([of_numbers(0, 3), ArraySource(np.zeros([3, 2]))], [], "source 1 of a mixture gives .*float32.* source 0"),
    ],
)
def test_what_is_no_mixture(sources, weights, says):
    with pytest.raises(DataError, match=says):
        MixtureSource(sources, weights=weights)


def test_hosts_need_a_batch_that_divides():
    with pytest.raises(DataError, match="the global batch of 5 does not divide into 2 hosts: use 4 or 6"):
        MixtureSource([of_numbers(0, 3)]).batches(batch_size=5, seed=0, shard=Shard(0, 2))
