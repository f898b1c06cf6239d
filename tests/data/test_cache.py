"""Examples that are kept in memory, where they fit."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data import cache
from tpuloop.data.arrays import ArraySource
from tpuloop.data.cache import free_memory, measured_bytes
from tpuloop.data.checks import DataError


def test_cached_examples_are_the_same_and_read_once(files):
    source = files.packed([10, 7], per_record=4)
    cached = source.cached()
    for file in source.files:
        with open(file.path, "wb"):
            pass
    assert isinstance(cached, ArraySource) and cached.size == 17 and cached.element_spec == source.element_spec
    (batch,) = cached.one_pass(batch_size=17)
    np.testing.assert_array_equal(batch["id"], np.arange(17))
    np.testing.assert_array_equal(batch["twice"][:, 1], -2 * np.arange(17))
    ids = np.concatenate([batch["id"] for batch in cached.batches(batch_size=17, seed=0).take(2)])
    assert sorted(ids[:17]) == sorted(ids[17:]) == list(range(17)) and list(ids[:17]) != list(ids[17:])


def test_arrays_are_cached_as_they_are():
    source = ArraySource(np.arange(3))
    assert source.cached() is source


def test_what_does_not_fit_is_refused_with_the_sizes(files, monkeypatch):
    source = files.packed([1000, 24], per_record=64)
    needed = 1024 * (4 + 16 + 1)
    assert measured_bytes(source) == needed
    monkeypatch.setattr(cache, "free_memory", lambda: 2 * needed)
    with pytest.raises(DataError, match=r"1,024 examples takes about 0.0 MiB, and of the 0.0 MiB .* leave the cache"):
        source.cached()
    # What is read lies there twice when it becomes a tensor.
    monkeypatch.setattr(cache, "free_memory", lambda: 3 * needed)
    assert source.cached().size == 1024
    monkeypatch.setattr(cache, "free_memory", lambda: None)
    assert source.cached().size == 1024


def test_strings_take_what_their_objects_take(files, caplog):
    caplog.set_level("INFO", "tpuloop")
    source = files.records([30], text=lambda number: b"x" * 1000)
    assert 30 * 1000 < measured_bytes(source) < 30 * 1200
    short = files.records([30], text=lambda number: b"x")
    assert measured_bytes(short) >= 30 * 40  # A Python object each, and not a byte.
    (batch,) = short.cached().one_pass(batch_size=30)
    assert set(batch.numpy()) == {b"x"}
    assert "caching 30 examples in memory, about 0.0 MiB" in caplog.text


def test_examples_without_a_fixed_shape_are_refused(files):
    source = files.records([4]).map_batches(lambda batch: {"bytes": tf.strings.bytes_split(batch)})
    with pytest.raises(DataError, match="feature .*bytes.* has no fixed shape, so that it cannot be cached"):
        source.cached()


def test_free_memory_is_told():
    assert 2**20 < free_memory() < 2**50
