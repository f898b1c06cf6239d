"""The two layouts in which ImageNet commonly lies in TFRecords."""

import dataclasses
from typing import Optional, Tuple

import tensorflow as tf
from google.protobuf.message import DecodeError

from tpuloop.data.checks import DataError


@dataclasses.dataclass(frozen=True)
class Layout:
    """Under which names records hold a picture and its class.

    Attributes:
      name: for messages.
      image_key: the feature with the bytes of the file.
      label_key: the feature with the class, one int64.
      first_label: the number that the first class has in the records; to a model it is 0.
    """

    name: str
    image_key: str
    label_key: str
    first_label: int = 0

    def __post_init__(self) -> None:
        if not self.image_key or not self.label_key or self.image_key == self.label_key:
            raise DataError(
                f"layout {self.name!r}: picture and label need two feature names, not "
                f"{self.image_key!r} and {self.label_key!r}"
            )

    def parse(self, serialized: tf.Tensor, *, num_classes: Optional[int] = None) -> Tuple[tf.Tensor, tf.Tensor]:
        """Parses a batch of records.

        Args:
          serialized: `tf.train.Example`s, a string tensor of shape [batch].
          num_classes: labels are checked to be among as many; None checks only that none is below the first.

        Returns:
          (encoded, label): the files' bytes, strings of shape [batch]; int64 of shape [batch], counted from 0.

        Raises:
          tf.errors.InvalidArgumentError: when it runs; naming the feature that a record lacks, or the labels, as they
            are stored, that no class has.
        """
        features = {
            self.image_key: tf.io.FixedLenFeature([], tf.string),
            self.label_key: tf.io.FixedLenFeature([], tf.int64),
        }
        parsed = tf.io.parse_example(serialized, features)
        stored = parsed[self.label_key]
        label = stored - self.first_label
        wrong = label < 0
        allowed = f"at least {self.first_label}"
        if num_classes is not None:
            wrong |= label >= num_classes
            allowed = f"{self.first_label} to {self.first_label + num_classes - 1}"
        message = f"feature {self.label_key}: labels must be {allowed} ({self.name} layout); these are not:"
        tf.debugging.Assert(tf.logical_not(tf.reduce_any(wrong)), [message, tf.boolean_mask(stored, wrong)])
        return parsed[self.image_key], label


# As written by the scripts of Inception and of the TPU reference models; 0 is the background, which no picture has.
# There may also be image/class/text, image/class/synset, image/object/bbox/*, image/height, ...; nothing reads them.
CLASSIC = Layout(name="classic", image_key="image/encoded", label_key="image/class/label", first_label=1)

# As written by TensorFlow Datasets for imagenet2012 and most of its other classifications, beside file_name or id.
TFDS = Layout(name="TFDS", image_key="image", label_key="label")

LAYOUTS = (CLASSIC, TFDS)


def detect_layout(serialized: bytes) -> Layout:
    """The layout of a record.

    Raises:
      DataError: where it has none of the two, naming what it has.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise DataError(f"a record of {len(serialized)} bytes is no tf.train.Example, which pictures lie in") from error
    for layout in LAYOUTS:
        if _holds(features, layout.image_key, "bytes_list") and _holds(features, layout.label_key, "int64_list"):
            return layout
    wanted = " or ".join(f"{layout.image_key} (bytes) and {layout.label_key} (int64)" for layout in LAYOUTS)
    found = ", ".join(f"{name} ({_kind(features[name])})" for name in sorted(features)) or "no features"
    raise DataError(f"no layout of pictures: a record must have {wanted}; it has {found}")


def _holds(features, name: str, kind: str) -> bool:
    """Whether the feature is there and has one value of that kind."""
    return name in features and len(getattr(features[name], kind).value) == 1


def _kind(feature: tf.train.Feature) -> str:
    kind = feature.WhichOneof("kind")
    if kind is None:
        return "empty"
    count = len(getattr(feature, kind).value)
    return f"{count} x {kind[: -len('_list')]}" if count != 1 else kind[: -len("_list")]
