"""Records that cannot be used are left out, counted and up to a number, and positions stay what they are."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.bad_records import with_policy
from tpuloop.data.checks import DataError
from tpuloop.data.index import counted
from tpuloop.data.record_source import RecordSource


def ids_of_pass(source):
    return [int(number) for batch in source.one_pass(batch_size=5) for number in batch.numpy()]


def parsed(source):
    return source.map_batches(lambda batch: tf.strings.to_number(batch, tf.int64)).map_examples(
        lambda number, seed: number + tf.random.stateless_uniform([], seed, maxval=3, dtype=tf.int64) * 1000
    )


@pytest.mark.slow
def test_one_example_a_record(files, flip_byte, caplog):
    texts = {4: b"x", 6: b"z", 22: b"y"}
    records = files.records([10, 8, 12, 5], text=lambda number: texts.get(number, b"%d" % number), window=16)
    flip_byte(records.files[0].path, 9)
    flip_byte(records.files[2].path, 8, "length")  # Examples 26 to 29 are lost with it.
    bad = {4, 6, 22, 9, 26, 27, 28, 29}
    source = with_policy(parsed(records), on_bad_record="skip")
    assert source.size == 35 - len(bad)
    assert [number % 1000 for number in ids_of_pass(source)] == [n for n in range(35) if n not in bad]
    (said,) = caplog.messages
    assert said.startswith("left out 5 bad records with 8 of 35 examples: ")
    assert f"{records.files[0].path}, record 4: parse: " in said and f"{records.files[2].path}, record 8: " in said
    # Where an example is, in spite of what is left out before it.
    assert source.whereabouts(5) == f"{records.files[0].path}, record 7"
    # Another process that skips has the same order, at any position, as a run that goes on needs.
    whole = np.concatenate([batch.numpy() for batch in source.batches(batch_size=4, seed=2).take(21)])
    again = with_policy(parsed(records), on_bad_record="skip")
    rest = np.concatenate([batch.numpy() for batch in again.batches(batch_size=4, seed=2, position=36).take(12)])
    np.testing.assert_array_equal(rest, whole[36:])
    for epoch in range(3):
        assert sorted(whole[epoch * 27 : (epoch + 1) * 27] % 1000) == [n for n in range(35) if n not in bad]


@pytest.mark.slow
def test_packed_records(files, flip_byte):
    source = files.packed([10, 9, 8], per_record=4).map_batches(lambda batch: batch["id"])
    inner = source.stages()[0][1]
    flip_byte(inner.files[0].path, 0)
    flip_byte(inner.files[1].path, 2)  # The short one, of one example.
    with pytest.raises(DataError, match=r"more than 1 bad records, the first of them .*part-000.*record 0: the check"):
        with_policy(source, on_bad_record="skip", max_bad_records=1)
    good = with_policy(source, on_bad_record="skip", max_bad_records=2)
    expected = [*range(4, 18), *range(19, 27)]
    assert ids_of_pass(good) == expected and good.size == 22
    shuffled = np.concatenate([batch.numpy() for batch in good.batches(batch_size=11, seed=0).take(4)])
    assert sorted(shuffled[:22]) == sorted(shuffled[22:]) == expected
    assert good.whereabouts(14) == f"{inner.files[2].path}, record 0, example 0 of it"


def test_files_that_are_cut_off(files, flip_byte, caplog):
    paths = [file.path for file in files.records([6, 6, 6]).files]
    os.truncate(paths[0], os.path.getsize(paths[0]) - 3)
    flip_byte(paths[1], 2, "length")
    with pytest.raises(DataError, match="part-000.tfrecord, record 5 at byte .*: the file ends inside it"):
        counted(paths)
    source = with_policy(RecordSource(counted(paths, damaged=True)), on_bad_record="skip")
    assert ids_of_pass(source) == [0, 1, 2, 3, 4, 6, 7, *range(12, 18)]
    assert "left out 2 bad records with 2 of 15 examples" in caplog.text


@pytest.mark.slow
def test_nothing_is_bad_and_everything_is_bad(files, flip_byte, caplog):
    source = parsed(files.records([6, 6]))
    assert with_policy(source, on_bad_record="skip") is source
    assert with_policy(source) is source and not caplog.messages
    with pytest.raises(DataError, match="the data is empty"):
        with_policy(parsed(files.records([1], text=lambda number: b"x")), on_bad_record="skip")


def test_what_cannot_be_skipped(files):
    with pytest.raises(DataError, match="on_bad_record is 'ignore': it must be fail or skip"):
        with_policy(files.records([3]), on_bad_record="ignore")
    with pytest.raises(DataError, match="on_bad_record=skip needs record files"):
        with_policy(ArraySource(np.arange(3)), on_bad_record="skip")
