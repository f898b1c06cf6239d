"""Chunks of any length become batches of one length, in order."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.rebatch import Chunk, rebatched


def chunks(lengths):
    """Chunks of which so many rows are taken, which count on: those behind a first one, the last first."""

    def made():
        for end, length in zip(np.cumsum(lengths), lengths):
            numbers = np.concatenate([[-1], np.arange(end - 1, end - length - 1, -1)])
            yield Chunk((numbers, numbers.astype(str)), np.arange(length, 0, -1))

    rows = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)
    return tf.data.Dataset.from_generator(made, output_signature=Chunk(rows, tf.TensorSpec([None], tf.int64)))


@pytest.mark.parametrize("batch_size", [1, 3, 5, 7, 50])
def test_a_finite_stream_ends_with_the_rest(batch_size):
    batches = list(rebatched(chunks([4, 0, 1, 9, 0, 6]), batch_size, size=20))
    assert [len(numbers) for numbers, _ in batches] == [
        min(batch_size, 20 - start) for start in range(0, 20, batch_size)
    ]
    assert [int(number) for numbers, _ in batches for number in numbers] == list(range(20))
    assert [int(text) for _, texts in batches for text in texts.numpy()] == list(range(20))


def test_an_endless_stream_has_static_shapes():
    dataset = rebatched(chunks([4, 0, 1, 9]), 4)
    assert dataset.element_spec == (tf.TensorSpec([4], tf.int64), tf.TensorSpec([4], tf.string))
    assert [numbers.numpy().tolist() for numbers, _ in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
