"""Arrays in .npz files, read a few megabytes at a time."""

import dataclasses
import struct
import zipfile
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np
from numpy.lib import format as npy

from tpuloop.data.convert.input_files import fingerprint, opened_input
from tpuloop.data.convert.input_kind import Batch, Contents, Input, InputKind, OnBad
from tpuloop.data.records.manifest import PACKED, Feature
from tpuloop.data.records.packing import stored_dtype
from tpuloop.errors import UsageError, suggestion

_BATCH_BYTES = 2 << 20
_MANY_CLASSES = 100_000
_LOCAL_HEADER = struct.Struct("<26xHH")  # Of a zip member: the lengths of its name and of what follows that.
# What zipfile and the reader of .npy headers raise for broken, encrypted and otherwise packed members.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


@dataclasses.dataclass(frozen=True)
class _Member:
    """One array of a file.

    Attributes:
      path: of the .npz file.
      name: of the array.
      dtype: as it is stored there.
      shape: with the examples first.
      begins: the byte of the .npy file at which the values begin.
      at: the byte of the .npz file at which they do; None where they are compressed.
    """

    path: str
    name: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    begins: int
    at: Optional[int]

    @property
    def row_bytes(self) -> int:
        """Of one example."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


class NpzKind(InputKind):
    """Arrays with one example a row."""

    name = "npz"
    summary = ".npz files: arrays with the examples along their first dimension"
    flags = ("label", "drop", "keep_float64")

    def recognises(self, path: str) -> bool:
        """By its ending."""
        return path.lower().endswith(".npz")

    def define_flags(self) -> None:
        """How arrays are stored."""
        from absl import flags

        flags.DEFINE_bool("keep_float64", None, ".npz: store float64 as it is, not as float32.")

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Reads the headers of the arrays; of a label that is text, all of it."""
        del workers
        files = [_members(path, options["drop"] or ()) for path in paths]
        for members in files[1:]:
            _check_same(files[0], members)
        names = [member.name for member in files[0]]
        label = options["label"]
        if label is None:
            label = "y" if "y" in names else None
        elif label not in names:
            raise UsageError(
                f"--label={label}: there is no such array{suggestion(label, names)}: the arrays are {', '.join(names)}"
            )
        classes: Optional[Set[str]] = None
        features = []
        for member in files[0]:
            if member.name == label and member.dtype.kind == "U" and len(member.shape) == 1:
                classes = set()
                features.append(Feature(member.name, "int64"))
                continue
            try:
                dtype = stored_dtype(member.dtype, keep_float64=bool(options["keep_float64"]))
            except UsageError as error:
                raise UsageError(
                    f"{member.path}: the array {member.name!r}: {error}, or leave it out (--drop={member.name})"
                ) from None
            features.append(Feature(member.name, dtype, member.shape[1:]))
        data = NpzInput(files=files, features=features, label=label, classes=None, source=fingerprint(paths))
        return data if classes is None else data.with_classes()


class NpzInput(Input):
    """Scanned files.

    Args:
      files: the members of each file, in order.
      features: what they become, in the same order.
      label: the name of the label's array, if any.
      classes: the label's values in sorted order, where they are text.
      source: the files' sizes and times.
    """

    def __init__(
        self,
        *,
        files: Sequence[Sequence[_Member]],
        features: Sequence[Feature],
        label: Optional[str],
        classes: Optional[Tuple[str, ...]],
        source: Mapping[str, Any],
    ):
        self._files, self._features, self._label = files, tuple(features), label
        self._classes, self._source = classes, source
        self._streams: Dict[Tuple[str, str], _Stream] = {}

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_streams": {}}

    @property
    def contents(self) -> Contents:
        """Packed features by the names of the arrays; a unit is an example."""
        return Contents(
            features=self._features,
            kind=PACKED,
            units=sum(members[0].shape[0] for members in self._files),
            bytes=sum(member.shape[0] * member.row_bytes for members in self._files for member in members),
            unit="examples",
            label=self._label,
            classes=self._classes,
            source=self._source,
        )

    def with_classes(self) -> "NpzInput":
        """The same, with the values of the label known."""
        classes: Set[str] = set()
        index = [feature.name for feature in self._features].index(self._label or "")
        for members in self._files:
            member = members[index]
            step = max(1, _BATCH_BYTES // max(member.row_bytes, 1))
            for start in range(0, member.shape[0], step):
                classes.update(self._values(member, start, min(start + step, member.shape[0])).tolist())
                if len(classes) > _MANY_CLASSES:
                    raise UsageError(
                        f"--label={self._label}: it has over {_MANY_CLASSES:,} different values: is it no class?"
                    )
        return NpzInput(
            files=self._files,
            features=self._features,
            label=self._label,
            classes=tuple(sorted(classes)),
            source=self._source,
        )

    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """Batches of about two megabytes. Arrays hold nothing that is a fault of one example alone."""
        del on_bad
        first = 0
        for members in self._files:
            count = members[0].shape[0]
            step = max(1, _BATCH_BYTES // max(1, sum(member.row_bytes for member in members)))
            low, high = max(start - first, 0), min(stop - first, count)
            for row in range(low, high, step):
                end = min(row + step, high)
                columns = {
                    feature.name: self._stored(member, feature, row, end)
                    for member, feature in zip(members, self._features)
                }
                yield Batch(numbers=np.arange(first + row, first + end), columns=columns, units=end - row)
            first += count

    def _values(self, member: _Member, start: int, stop: int) -> np.ndarray:
        key = member.path, member.name
        stream = self._streams.get(key)
        if stream is None or not stream.can_reach(start):
            stream = self._streams[key] = _Stream(member)
        return stream.read(start, stop)

    def _stored(self, member: _Member, feature: Feature, start: int, stop: int) -> np.ndarray:
        values = self._values(member, start, stop)
        if values.dtype.kind == "U":
            assert self._classes is not None
            return np.searchsorted(np.array(self._classes), values).astype(np.int64)
        with np.errstate(over="ignore"):
            stored = values.astype(feature.dtype)
        if feature.dtype == "float32" and values.dtype.itemsize == 8:
            lost = np.isinf(stored) & np.isfinite(values)
            if lost.any():
                row = int(np.argwhere(lost)[0][0])
                raise UsageError(
                    f"{member.path}: the array {member.name!r} holds {values[lost][0]:g} in example {start + row}, "
                    "which float32 does not: give --keep_float64"
                )
        return stored


class _Stream:
    """Reads an array forward; compressed values before those asked for are read too, and thrown away."""

    def __init__(self, member: _Member):
        self._member = member
        self._row = 0
        if member.at is not None:
            self._file: BinaryIO = opened_input(member.path)
            self._file.seek(member.at)
            return
        self._file = zipfile.ZipFile(opened_input(member.path)).open(f"{member.name}.npy")  # type: ignore[assignment]
        self._skip(member.begins)

    def can_reach(self, row: int) -> bool:
        return self._member.at is not None or row >= self._row

    def read(self, start: int, stop: int) -> np.ndarray:
        member = self._member
        try:
            if member.at is not None:
                self._file.seek(member.at + start * member.row_bytes)
            else:
                self._skip((start - self._row) * member.row_bytes)
            data = self._file.read((stop - start) * member.row_bytes)
        except _DAMAGE as error:
            raise UsageError(f"{member.path}: the array {member.name!r} is damaged: {error}") from error
        self._row = stop
        if len(data) != (stop - start) * member.row_bytes:
            raise UsageError(f"{member.path}: the array {member.name!r} ends before example {stop}: write it anew")
        return np.frombuffer(data, member.dtype).reshape((stop - start, *member.shape[1:]))

    def _skip(self, count: int) -> None:
        while count:
            piece = self._file.read(min(count, _BATCH_BYTES))
            if not piece:
                return
            count -= len(piece)


def _members(path: str, dropped: Sequence[str]) -> List[_Member]:
    """The arrays of a file, all of one length."""
    with opened_input(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [
                    _member(path, file, archive, info)
                    for info in archive.infolist()
                    if info.filename.endswith(".npy") and info.filename[: -len(".npy")] not in dropped
                ]
        except _DAMAGE as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"{path} is no .npz file ({error}): write one with np.savez(file, x=..., y=...)"
            ) from error
    if not members:
        raise UsageError(f"{path} holds no arrays to convert: write some with np.savez(file, x=..., y=...)")
    counts = {member.shape[0] for member in members}
    if len(counts) > 1:
        listed = ", ".join(f"{member.name} {member.shape[0]}" for member in members)
        raise UsageError(f"{path}: the arrays have different first dimensions ({listed}): leave some out with --drop")
    if counts == {0}:
        raise UsageError(f"{path} holds no examples: its arrays are empty")
    return members


def _member(path: str, file: BinaryIO, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    name = info.filename[: -len(".npy")]
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        begins = stream.tell()
    remedy = f"or leave it out (--drop={name})"
    if dtype.hasobject:
        raise UsageError(
            f"{path}: the array {name!r} holds Python objects, which only running code of the file could read: save it "
            f"as numbers, {remedy}"
        )
    if not shape:
        raise UsageError(f"{path}: the array {name!r} is one value and has no examples: {remedy[3:]}")
    if fortran and len(shape) > 1:
        raise UsageError(
            f"{path}: the array {name!r} is stored column by column: save np.ascontiguousarray({name}), {remedy}"
        )
    at = None
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
        file.seek(info.header_offset)
        at = info.header_offset + 30 + sum(_LOCAL_HEADER.unpack(file.read(30))) + begins
    return _Member(path, name, dtype, shape, begins, at)


def _check_same(first: Sequence[_Member], other: Sequence[_Member]) -> None:
    def kinds(members: Sequence[_Member]) -> Dict[str, str]:
        return {member.name: f"{member.dtype}{list(member.shape[1:])}" for member in members}

    one, two = kinds(first), kinds(other)
    for name in {**one, **two}:
        if one.get(name) != two.get(name):
            raise UsageError(
                f"{other[0].path}: the array {name!r} is {two.get(name, 'missing')}, and in {first[0].path} it is "
                f"{one.get(name, 'missing')}: convert them apart"
            )
    if list(one) != list(two):
        raise UsageError(f"{other[0].path} holds its arrays in another order than {first[0].path}: write them alike")
