"""Packed records: the examples of a record feature after feature, as plain bytes.

A record of n examples holds, for each feature in the manifest's order, its n values: C-contiguous, little-endian, with
nothing between. n follows from the length, since every example has the same number of bytes. All records of a shard
hold the same number of examples, except perhaps its last.
"""

from typing import Dict, Mapping, Sequence

import numpy as np

from tpuloop.data.records.manifest import Feature
from tpuloop.errors import UsageError

EXAMPLES_PER_RECORD = 64
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")


def shard_name(split: str, index: int, count: int) -> str:
    """The file name of a shard, such as train-00000-of-00004.tfrecord."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def stored_dtype(dtype: np.dtype, *, keep_float64: bool = False) -> str:
    """The name of the dtype that values of `dtype` are stored in: their own, but float32 for float64.

    Raises:
      UsageError: for what a packed record cannot hold, such as text or complex numbers.
    """
    name = np.dtype(dtype).newbyteorder("=").name
    if name == "uint32":
        return "int64"
    if name == "float64" and not keep_float64:
        return "float32"
    if name not in DTYPES:
        raise UsageError(f"values of the type {name} cannot be packed: use one of {', '.join(DTYPES)}")
    return name


def example_bytes(features: Sequence[Feature]) -> int:
    """Bytes of one packed example.

    Raises:
      UsageError: where a feature has no fixed size.
    """
    return sum(_feature_bytes(feature) for feature in features)


def pack(columns: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of one record.

    Args:
      columns: by feature, in the manifest's order, arrays [n, ...] of the stored dtypes.
    """
    parts = []
    for values in columns.values():
        if values.dtype.byteorder == ">":
            values = values.astype(values.dtype.newbyteorder("<"))
        parts.append(values.tobytes())
    return parts[0] if len(parts) == 1 else b"".join(parts)


def unpack(data: bytes, features: Sequence[Feature]) -> Dict[str, np.ndarray]:
    """The arrays [n, ...] of a record, by feature; they share the memory of `data`.

    Raises:
      UsageError: where the length is no multiple of an example's.
    """
    size = example_bytes(features)
    count, rest = divmod(len(data), size)
    if rest:
        raise UsageError(f"a record of {len(data)} bytes holds no whole number of examples of {size} bytes")
    columns, offset = {}, 0
    for feature in features:
        dtype = np.dtype(feature.dtype).newbyteorder("<")
        values = np.frombuffer(data, dtype, count * _feature_bytes(feature) // dtype.itemsize, offset)
        columns[feature.name] = values.reshape([count, *feature.shape])  # type: ignore[list-item]
        offset += values.nbytes
    return columns


def _feature_bytes(feature: Feature) -> int:
    if not feature.fixed:
        raise UsageError(f"feature {feature.name!r} ({feature.dtype}{list(feature.shape)}) has no fixed size")
    values = 1
    for size in feature.shape:
        values *= size  # type: ignore[operator]
    return values * np.dtype(feature.dtype).itemsize
