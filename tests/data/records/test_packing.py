"""The bytes of a packed record, by hand and as TensorFlow decodes them."""

import numpy as np
import pytest

from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import DTYPES, example_bytes, pack, shard_name, stored_dtype, unpack
from tpuloop.errors import UsageError


def test_feature_after_feature_in_the_order_given():
    columns = {"b": np.array([[1, 2], [3, 4]], np.uint8), "a": np.array([5, -2], np.int16)}
    data = pack(columns)
    assert data == bytes([1, 2, 3, 4, 5, 0, 0xFE, 0xFF])
    features = [Feature("b", "uint8", (2,)), Feature("a", "int16")]
    assert example_bytes(features) == 4
    found = unpack(data, features)
    assert list(found) == ["b", "a"]
    for name in columns:
        np.testing.assert_array_equal(found[name], columns[name])


def test_big_endian_and_strided_values():
    assert pack({"a": np.array([1, 2], ">i4")}) == bytes([1, 0, 0, 0, 2, 0, 0, 0])
    assert pack({"a": np.arange(6, dtype=np.uint8).reshape(2, 3).T}) == bytes([0, 3, 1, 4, 2, 5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype):
    values = np.array([[0, 1], [1, 100], [7, 0]]).astype(dtype)
    (found,) = unpack(pack({"a": values}), [Feature("a", dtype, (2,))]).values()
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_tensorflow_decodes_the_same():
    import tensorflow as tf

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    decoded = tf.reshape(tf.io.decode_raw(pack({"x": values}), tf.float32), [-1, 4])
    np.testing.assert_array_equal(decoded, values)


def test_a_length_that_cannot_be():
    with pytest.raises(UsageError, match="9 bytes holds no whole number of examples of 8 bytes"):
        unpack(bytes(9), [Feature("a", "float32", (2,))])
    with pytest.raises(UsageError, match="'a' .* has no fixed size"):
        unpack(bytes(8), [Feature("a", "float32", (None,))])


def test_what_values_are_stored_in():
    assert stored_dtype(np.dtype("float64")) == "float32"
    assert stored_dtype(np.dtype("float64"), keep_float64=True) == "float64"
    assert stored_dtype(np.dtype(">i4")) == "int32" and stored_dtype(np.dtype("uint32")) == "int64"
    for dtype in ("uint64", "complex64", "U3", "O", "M8[s]"):
        with pytest.raises(UsageError, match="cannot be packed"):
            stored_dtype(np.dtype(dtype))


def test_names_of_shards():
    assert shard_name("train", 3, 12) == "train-00003-of-00012.tfrecord"
