"""What is wrong with data, in the words a user sees."""

import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError, check_batches, check_divides, named_specs

FLOATS = tf.TensorSpec([8, 3], tf.float32)


def check(spec, static_shapes=False, strings=False):
    return check_batches(spec, static_shapes=static_shapes, strings=strings)


def test_size_of_a_batch():
    assert check((FLOATS, tf.TensorSpec([None], tf.int32))) == 8
    assert check(tf.TensorSpec([None, 3])) is None
    assert check({"a": FLOATS, "b": None}) == 8


FAULTS = {
    "empty": ((), "the data has no features"),
    "ragged": (
        ({"ids": tf.RaggedTensorSpec([8, None], tf.int32)}, FLOATS),
        r"feature element\[0\]\['ids'\] is a RaggedTensorSpec: only dense .* \.to_tensor\(\)",
    ),
    "sparse": (tf.SparseTensorSpec([8, 3]), r"feature element is a SparseTensorSpec: only dense .* tf.sparse.to_dense"),
    "string": (
        (FLOATS, {"name": tf.TensorSpec([8], tf.string)}),
        r"feature element\[1\]\['name'\] is a string, .* turn it into numbers in the dataset \(\.map\) or leave it out",
    ),
    "rank": ((tf.TensorSpec(None),), r"feature element\[0\] has an unknown rank: .*tf.ensure_shape"),
    "unbatched": (
        (tf.TensorSpec([3]), tf.TensorSpec([])),
        r"feature element\[1\] has no batch dimension: call \.batch\(global_batch_size\)",
    ),
    "mixed": (
        (FLOATS, tf.TensorSpec([4])),
        r"the features of a batch have different first dimensions: element\[0\] 8, element\[1\] 4",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault):
    spec, message = FAULTS[fault]
    with pytest.raises(DataError, match=message):
        check(spec)


def test_strings_may_pass():
    assert check(tf.TensorSpec([8], tf.string), strings=True) == 8


def test_a_tpu_needs_every_dimension():
    with pytest.raises(DataError, match=r"element\[1\] has the shape \(8, None\), and a TPU .* drop_remainder=True"):
        check((FLOATS, tf.TensorSpec([8, None])), static_shapes=True)
    assert check(FLOATS, static_shapes=True) == 8


@pytest.mark.parametrize(
    "size, replicas, message",
    [
        (10, 4, "the global batch of 10 does not divide into 4 replicas: use 8 or 12"),
        (3, 8, "the global batch of 3 does not divide into 8 replicas: use 8"),
        (0, 1, "the global batch is 0: it must be at least 1"),
    ],
)
def test_batches_that_do_not_divide(size, replicas, message):
    with pytest.raises(DataError, match=message):
        check_divides(size, replicas)
    check_divides(8, 4)


def test_names():
    assert [name for name, _ in named_specs(({"b": FLOATS, "a": (FLOATS, None)}, FLOATS))] == [
        "element[0]['a'][0]",
        "element[0]['b']",
        "element[1]",
    ]
