"""TFRecord files of tf.train.Example: packed where all features are numbers of fixed shapes, else written on."""

import array
import dataclasses
import itertools
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.convert.input_files import fingerprint, opened_input
from tpuloop.data.convert.input_kind import Batch, Contents, Input, InputKind, OnBad
from tpuloop.data.convert.workers import Reporter, run_all
from tpuloop.data.records.compression import HEAD, compression_by
from tpuloop.data.records.example import NoExample, Values, decode, encode
from tpuloop.data.records.framing import OVERHEAD, RecordFault, frame_spans, read_frames
from tpuloop.data.records.manifest import EXAMPLES, PACKED, Feature
from tpuloop.errors import UsageError, suggestion

_STRIDE = 1024  # Records between two whose places are kept.
_SAMPLE = 1000  # What features there are is judged by these.
_BATCH_RECORDS, _BATCH_BYTES = 256, 4 << 20
_MANY_BYTES = 256 << 20  # From here on, workers count the records.


@dataclasses.dataclass(frozen=True)
class _File:
    """One file, and where its records are.

    Attributes:
      path: of the file.
      records: whose ends are known.
      offsets: of every _STRIDE-th.
      tail: what is wrong behind them, if anything; it counts as one unit more.
    """

    path: str
    records: int
    offsets: "array.array[int]"
    tail: Optional[str] = None

    @property
    def units(self) -> int:
        return self.records + (self.tail is not None)


class TFRecordKind(InputKind):
    """Files that another program wrote, one example a record."""

    name = "tfrecord"
    summary = "TFRecord files of tf.train.Example, packed where all features are numbers of fixed shapes"
    flags = ("label", "drop")

    def recognises(self, path: str) -> bool:
        """By its name, also one such as train-00000-of-00004.tfrecord or data.tfrecord-00000-of-00004."""
        name = path.lower().rsplit("/", 1)[-1]
        return ".tfrec" in name or name.endswith(".records")

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Counts the records, and infers the features from the first ones."""
        source = fingerprint(paths)
        if len(paths) > 1 and sum(file["bytes"] for file in source["files"]) > _MANY_BYTES:
            found = run_all(work=_indexed_in_worker, setting=None, jobs=paths, count=workers)
        else:
            found = [_indexed(path) for path in paths]
        for file in found:
            if file.tail is not None and options["on_bad_record"] == "fail":
                raise UsageError(f"{file.path}, {file.tail}: {_REMEDY}")
        if not sum(file.records for file in found):
            raise UsageError(f"{paths[0]} holds no records: give files that do")
        dropped = tuple(options["drop"] or ())
        features = _features(found, dropped)
        names = [feature.name for feature in features]
        label = options["label"]
        if label is not None and label not in names:
            raise UsageError(
                f"--label={label}: there is no such feature{suggestion(label, names)}: they are {', '.join(names)}"
            )
        return TFRecordInput(files=found, features=features, dropped=dropped, label=label, source=source)


class TFRecordInput(Input):
    """Scanned files.

    Args:
      files: in order.
      features: of the first records; all others must have the same.
      dropped: features to leave out.
      label: the name of the label, if any.
      source: the files' sizes and times.
    """

    def __init__(
        self,
        *,
        files: Sequence[_File],
        features: Sequence[Feature],
        dropped: Sequence[str],
        label: Optional[str],
        source: Mapping[str, Any],
    ):
        self._files, self._features, self._dropped = tuple(files), tuple(features), tuple(dropped)
        self._label, self._source = label, source
        self._packed = all(feature.fixed for feature in features)

    @property
    def contents(self) -> Contents:
        """Packed features if all can be, else examples; a unit is a record."""
        return Contents(
            features=self._features,
            kind=PACKED if self._packed else EXAMPLES,
            units=sum(file.units for file in self._files),
            bytes=sum(file["bytes"] for file in self._source["files"]),
            unit="records",
            label=self._label,
            source=self._source,
        )

    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """Batches of some hundred records."""
        first = 0
        for file in self._files:
            low, high = max(start - first, 0), min(stop - first, file.units)
            if low < high:
                yield from self._read_file(file, low, high, first, on_bad)
            first += file.units

    def _read_file(self, file: _File, low: int, high: int, first: int, on_bad: OnBad) -> Iterator[Batch]:
        numbers: List[int] = []
        examples: List[Any] = []
        units = size = 0
        for number, record in _records(file, low, min(high, file.records), on_bad):
            units += 1
            if record is not None:
                try:
                    examples.append(self._example(record))
                    numbers.append(first + number)
                    size += len(record)
                except NoExample as error:
                    on_bad(f"{file.path}, record {number}: {error}")
            if units >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                yield self._batch(numbers, examples, units)
                numbers, examples, units, size = [], [], 0, 0
        if high > file.records:
            on_bad(f"{file.path}, {file.tail}")
            units += 1
        yield self._batch(numbers, examples, units)

    def _example(self, record: bytes) -> Any:
        """The values of a packed example, or the record to write.

        Raises:
          NoExample: with what differs from the first records.
        """
        found = decode(record)
        for feature in self._features:
            values = found.get(feature.name)
            if values is None:
                if feature.shape == (None,):
                    continue
                raise NoExample(f"the feature {feature.name!r} is missing: {_REMEDY}")
            if _dtype(values) != feature.dtype:
                raise NoExample(
                    f"the feature {feature.name!r} is {_dtype(values)}, and in the first records {feature.dtype}: "
                    f"{_REMEDY}"
                )
            if feature.shape != (None,) and len(values) != (feature.shape[0] if feature.shape else 1):
                wanted = feature.shape[0] if feature.shape else 1
                raise NoExample(
                    f"the feature {feature.name!r} has {len(values)} values, and in the first records {wanted}: "
                    f"{_REMEDY}"
                )
        if self._packed:
            return [found[feature.name] for feature in self._features]
        if self._dropped:
            return encode({name: values for name, values in found.items() if name not in self._dropped})
        return record

    def _batch(self, numbers: List[int], examples: List[Any], units: int) -> Batch:
        at = np.array(numbers, np.int64)
        if not self._packed:
            return Batch(numbers=at, records=examples, units=units)
        columns = {}
        for index, feature in enumerate(self._features):
            values = [example[index] for example in examples]
            flat = np.concatenate(values) if values else np.zeros(0, feature.dtype)
            columns[feature.name] = flat.reshape([-1, *feature.shape])  # type: ignore[list-item]
        return Batch(numbers=at, columns=columns, units=units)


_REMEDY = "mend it, or leave such records out (--on_bad_record=skip)"


def _indexed(path: str) -> _File:
    """Counts the records of a file."""
    offsets: array.array[int] = array.array("q")
    count = 0
    with opened_input(path) as file:
        if compression_by(file.read(HEAD)):
            raise UsageError(f"{path} is compressed: decompress it first, as with gunzip")
        file.seek(0)
        try:
            for offset, _ in frame_spans(file):
                if count % _STRIDE == 0:
                    offsets.append(offset)
                count += 1
        except RecordFault as fault:
            if fault.record == 0 and fault.reason != "truncated":
                raise UsageError(f"{path} is no TFRecord file, or damaged from its first record on") from fault
            return _File(path, count, offsets, str(fault))
    return _File(path, count, offsets)


def _indexed_in_worker(setting: None, path: str, reporter: Reporter) -> _File:
    del setting, reporter
    return _indexed(path)


def _records(file: _File, start: int, stop: int, on_bad: OnBad) -> Iterator[Tuple[int, Optional[bytes]]]:
    """Numbers and data of the records from `start` to before `stop`; None for data that is damaged."""
    if start >= stop:
        return
    kept = start // _STRIDE
    with opened_input(file.path) as opened:
        place = file.offsets[kept]
        opened.seek(place)
        for offset, length in itertools.islice(frame_spans(opened), start - kept * _STRIDE):
            place = offset + length + OVERHEAD
        opened.seek(place)
        faults: List[RecordFault] = []
        found = read_frames(opened, first_record=start, on_fault=faults.append)
        number = start
        while number < stop:
            item = next(found, None)
            for fault in faults:
                if number < stop:
                    on_bad(f"{file.path}, {fault}: {_REMEDY}")
                    yield number, None
                number += 1
            faults.clear()
            if item is None:
                return
            if number < stop:
                yield number, item[1]
            number += 1


def _features(found: Sequence[_File], dropped: Sequence[str]) -> List[Feature]:
    """What the first records hold."""
    lengths: Dict[str, set] = {}
    dtypes: Dict[str, str] = {}
    seen = 0
    for file in found:
        ignored: List[str] = []
        for _, record in _records(file, 0, min(file.records, _SAMPLE - seen), ignored.append):
            try:
                values = decode(record) if record is not None else {}
            except NoExample as error:
                raise UsageError(f"{file.path}, record {seen}: {error}: only these can be converted") from error
            if record is None:
                continue
            for name in {**lengths, **values}:
                lengths.setdefault(name, {0} if seen else set()).add(len(values.get(name, ())))
                if name in values and dtypes.setdefault(name, _dtype(values[name])) != _dtype(values[name]):
                    raise UsageError(
                        f"{file.path}: the feature {name!r} is {dtypes[name]} in some records and "
                        f"{_dtype(values[name])} in others: leave it out (--drop={name})"
                    )
            seen += 1
    for name in dropped:
        if name not in lengths:
            raise UsageError(f"--drop={name}: there is no such feature{suggestion(name, lengths)}")
    features = []
    for name in sorted(set(lengths) - set(dropped)):
        sizes = lengths[name]
        shape: Tuple[Optional[int], ...] = (next(iter(sizes)),) if len(sizes) == 1 else (None,)
        features.append(Feature(name, dtypes[name], () if shape == (1,) else shape))
    if not features:
        raise UsageError("no feature is left: leave out fewer")
    return features


def _dtype(values: Values) -> str:
    return "bytes" if isinstance(values, list) else values.dtype.name
