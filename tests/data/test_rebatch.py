"""Chunks of any length become batches of one length, in order."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.rebatch import rebatched


def chunks(lengths):
    """Pairs whose rows count on, in chunks of these lengths."""
    ends = np.cumsum(lengths)
    ragged = tf.ragged.constant([list(range(end - length, end)) for end, length in zip(ends, lengths)], tf.int64)
    return tf.data.Dataset.from_tensor_slices(ragged).map(
        lambda row: (row.to_tensor() if isinstance(row, tf.RaggedTensor) else row, tf.strings.as_string(row))
    )


@pytest.mark.parametrize("batch_size", [1, 3, 7, 50])
def test_a_finite_stream_ends_with_the_rest(batch_size):
    lengths = [4, 0, 1, 9, 0, 6]
    batches = list(rebatched(chunks(lengths), batch_size, size=20))
    assert [len(numbers) for numbers, _ in batches] == [batch_size] * (20 // batch_size) + [20 % batch_size] * (
        20 % batch_size > 0
    )
    assert [int(n) for numbers, _ in batches for n in numbers] == list(range(20))
    assert [int(text) for _, texts in batches for text in texts.numpy()] == list(range(20))


def test_an_endless_stream_has_static_shapes_and_ends_with_its_chunks():
    dataset = rebatched(chunks([4, 0, 1, 9]), 4)
    assert dataset.element_spec == (tf.TensorSpec([4], tf.int64), tf.TensorSpec([4], tf.string))
    assert [numbers.numpy().tolist() for numbers, _ in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
