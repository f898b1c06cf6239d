"""The manifest of a folder of record files: what they hold, how many, how long, with which checksums."""

import dataclasses
import json
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from tpuloop import paths
from tpuloop.data.records import files
from tpuloop.data.records.framing import OVERHEAD
from tpuloop.errors import UsageError

FILE_NAME = "manifest.json"
PACKED, EXAMPLES = "packed", "examples"

_VERSION = 1
_BYTES = "bytes"


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of every example.

    Attributes:
      name: of the feature.
      dtype: a NumPy name such as "float32", or "bytes".
      shape: of one example's value; None for a dimension that varies.
    """

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether all values have one size in bytes."""
        return self.dtype != _BYTES and None not in self.shape

    @property
    def size(self) -> int:
        """How many numbers a value of a fixed size has."""
        return int(np.prod([size or 0 for size in self.shape], dtype=np.int64))


@dataclasses.dataclass(frozen=True)
class ShardFile:
    """One file.

    Attributes:
      file: its name in the folder.
      records: how many there are in it.
      examples: in all records together.
      bytes: its length.
      crc32c: of the whole file, as a number.
    """

    file: str
    records: int
    examples: int
    bytes: int
    crc32c: int


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says.

    Attributes:
      features: in the order in which a packed record holds them.
      kind: "packed", or "examples" where each record is one tf.train.Example.
      examples_per_record: in every packed record but the last of a file; 1 for "examples".
      splits: the files of each split, such as "train" and "test", in order.
      label: the feature that a model is to predict, if any.
      classes: the names of the label's classes, if it has names.
      made: plain data on how the files were made.
    """

    features: Tuple[Feature, ...]
    kind: str
    examples_per_record: int
    splits: Mapping[str, Tuple[ShardFile, ...]]
    label: Optional[str] = None
    classes: Optional[Tuple[str, ...]] = None
    made: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.kind not in (PACKED, EXAMPLES):
            raise ValueError(f"kind must be {PACKED!r} or {EXAMPLES!r}; it is {self.kind!r}")
        if not self.features or not self.splits:
            raise ValueError("a manifest needs features and splits")
        names = [feature.name for feature in self.features]
        if len(set(names)) != len(names):
            raise ValueError(f"two features have one name: {names}")
        if self.label is not None and self.label not in names:
            raise ValueError(f"label {self.label!r} is none of the features {names}")
        if self.examples_per_record < 1 or (self.kind == EXAMPLES and self.examples_per_record != 1):
            raise ValueError(f"examples_per_record must not be {self.examples_per_record} with kind {self.kind!r}")
        if self.kind == PACKED and not all(feature.fixed for feature in self.features):
            raise ValueError("packed features must have a fixed size")

    def examples(self, split: str) -> int:
        """Examples in a split."""
        return sum(shard.examples for shard in self.splits[split])

    def save(self, folder: str) -> None:
        """Writes `manifest.json` into the folder, whole or not at all.

        Raises:
          OSError: where it cannot be written.
        """
        content = {"version": _VERSION, **dataclasses.asdict(self)}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        files.write_atomically(paths.join(folder, FILE_NAME), text.encode())

    @classmethod
    def load(cls, folder: str, *, check_files: bool = True) -> "Manifest":
        """Reads the manifest of a folder.

        Args:
          folder: local, or such as gs://BUCKET/FOLDER.
          check_files: see that the files are there and, where they are local, have the length they should.

        Raises:
          UsageError: where there is none, it is damaged or of a newer version, or a file is missing.
        """
        path = paths.join(folder, FILE_NAME)
        try:
            content = json.loads(files.read_file(path))
        except FileNotFoundError:
            paths.check_bucket(path)
            raise UsageError(
                f"{folder} holds no {FILE_NAME}: make it with tpuloop data convert INPUT --out={folder}"
            ) from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise UsageError(f"{path} is damaged ({error}): convert the data anew") from error
        version = content.get("version") if isinstance(content, dict) else None
        if isinstance(version, int) and version > _VERSION:
            raise UsageError(f"{path} has version {version}, and this tpuloop reads up to {_VERSION}: use a newer one")
        try:
            manifest = cls._from_content(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{path} is damaged ({type(error).__name__}: {error}): convert the data anew") from error
        if check_files:
            manifest._check_files(folder)
        return manifest

    @classmethod
    def _from_content(cls, content: Dict[str, Any]) -> "Manifest":
        content = dict(content)
        if content.pop("version") != _VERSION:
            raise ValueError("the version is missing")
        features = tuple(Feature(**{**item, "shape": tuple(item["shape"])}) for item in content.pop("features"))
        splits = {name: tuple(ShardFile(**item) for item in shards) for name, shards in content.pop("splits").items()}
        classes = content.pop("classes")
        manifest = cls(features=features, splits=splits, classes=None if classes is None else tuple(classes), **content)
        manifest._check_sizes()
        return manifest

    def _check_sizes(self) -> None:
        """That the counts, the features and the lengths of the files go together, as those of what was written do.

        Raises:
          ValueError: where they do not.
        """
        for feature in self.features:
            if feature.dtype != _BYTES and np.dtype(feature.dtype).kind not in "biuf":
                raise ValueError(f"feature {feature.name!r} has the dtype {feature.dtype!r}")
        per_example = sum(feature.size * np.dtype(feature.dtype).itemsize for feature in self.features if feature.fixed)
        for shard in (shard for shards in self.splits.values() for shard in shards):
            if any(type(value) is not int or value < 0 for value in (shard.records, shard.examples, shard.bytes)):
                raise ValueError(f"the counts of {shard.file} are no numbers of at least 0")
            if shard.records != -(-shard.examples // self.examples_per_record):
                raise ValueError(f"{shard.file} cannot have {shard.records} records and {shard.examples} examples")
            if self.kind == PACKED and shard.bytes != shard.examples * per_example + shard.records * OVERHEAD:
                raise ValueError(f"{shard.file} cannot have {shard.examples} examples in {shard.bytes} bytes")

    def _check_files(self, folder: str) -> None:
        names = set(files.names_in(folder))
        for shard in (shard for shards in self.splits.values() for shard in shards):
            if shard.file not in names:
                raise UsageError(f"{folder}: {shard.file} is missing, which {FILE_NAME} lists: convert the data anew")
            if paths.is_remote(folder):
                continue  # One request for each file is too slow.
            found = files.size_of(paths.join(folder, shard.file))
            if found != shard.bytes:
                raise UsageError(
                    f"{folder}: {shard.file} has {found} bytes, and {FILE_NAME} says {shard.bytes}: "
                    "convert the data anew"
                )
