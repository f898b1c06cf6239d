"""tf.train.Example without TensorFlow: the same bytes, by Protocol Buffers' own runtime."""

import warnings
from typing import Any, Dict, List, Mapping, Union

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

Values = Union[List[bytes], np.ndarray]
"""Of a feature: a list of bytes, float32 [n] or int64 [n]."""

_OPTIONAL, _REPEATED = 1, 3
_FLOAT, _INT64, _STRING, _MESSAGE, _BYTES = 2, 3, 9, 11, 12


class NoExample(ValueError):
    """A record is no serialized tf.train.Example."""


def decode(record: bytes) -> Dict[str, Values]:
    """The features of an example, by name in sorted order. One without values is left out.

    Raises:
      NoExample: where the record is none, or has no features.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            message = _Example.FromString(record)
    except DecodeError as error:
        raise NoExample("it is no tf.train.Example") from error
    if caught:  # "Not all data was converted"
        raise NoExample("it is no tf.train.Example")
    found: Dict[str, Values] = {}
    for name in sorted(message.features.feature):
        feature = message.features.feature[name]
        kind = feature.WhichOneof("kind")
        if kind is None:
            continue
        values = getattr(feature, kind).value
        if kind == "bytes_list":
            found[name] = list(values)
        else:
            found[name] = np.array(values, np.float32 if kind == "float_list" else np.int64)
    if not found:
        raise NoExample("it is no tf.train.Example, or one without features")
    return found


def encode(features: Mapping[str, Any]) -> bytes:
    """A serialized example; the same features always give the same bytes.

    Args:
      features: by name, bytes or a list of them, or numbers, whole ones for an int64 feature.
    """
    message = _Example()
    for name, values in features.items():
        feature = message.features.feature[name]
        if isinstance(values, bytes):
            values = [values]
        if isinstance(values, list) and all(isinstance(value, bytes) for value in values):
            feature.bytes_list.value.extend(values)
            continue
        flat = np.ravel(values)
        if flat.dtype.kind == "f":
            feature.float_list.value.extend(flat.tolist())
        else:
            feature.int64_list.value.extend(flat.tolist())
    return message.SerializeToString(deterministic=True)


def _example_class() -> Any:
    """The message's class, in a pool of its own: TensorFlow registers the same names in the common one."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    for name, kind in (("BytesList", _BYTES), ("FloatList", _FLOAT), ("Int64List", _INT64)):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind_name) in enumerate(
        (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), start=1
    ):
        feature.field.add(
            name=name,
            number=number,
            type=_MESSAGE,
            type_name=f".tensorflow.{kind_name}",
            label=_OPTIONAL,
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_STRING, label=_OPTIONAL)
    entry.field.add(name="value", number=2, type=_MESSAGE, type_name=".tensorflow.Feature", label=_OPTIONAL)
    features.field.add(
        name="feature", number=1, type=_MESSAGE, type_name=".tensorflow.Features.FeatureEntry", label=_REPEATED
    )
    example = file.message_type.add(name="Example")
    example.field.add(name="features", number=1, type=_MESSAGE, type_name=".tensorflow.Features", label=_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("tensorflow.Example"))


_Example = _example_class()
