"""Finds out what a path holds, and looks into it."""

import dataclasses
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from tpuloop import paths
from tpuloop.commands.data import tables
from tpuloop.commands.data.features import Features, first_picture, shown
from tpuloop.commands.data.record_file import BadStream, compression_of, records_of
from tpuloop.commands.data.verify import ToVerify, verified
from tpuloop.data.convert.image_header import BadImage, read_header
from tpuloop.data.records import example, files
from tpuloop.data.records.framing import RecordFault, count_frames, read_frames
from tpuloop.data.records.manifest import FILE_NAME, PACKED, Manifest
from tpuloop.data.records.packing import example_bytes, unpack
from tpuloop.errors import UsageError
from tpuloop.paths import join

CONVERTED, RECORDS, CSV, JSON_LINES, NPZ, IMAGES = "converted", "records", "csv", "jsonl", "npz", "images"

_BY_NAME = {".csv": CSV, ".tsv": CSV, ".jsonl": JSON_LINES, ".npz": NPZ}
_PICTURES = (".jpg", ".jpeg", ".png")
_NAMED = 3  # Files that are named.

Fault = Tuple[str, List[str]]
"""A file, and what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Files that are looked at as one.

    Attributes:
      kind: CONVERTED, RECORDS, CSV, JSON_LINES, NPZ or IMAGES.
      name: what the user called them.
      files: their paths; of a converted folder, that of the folder.
    """

    kind: str
    name: str
    files: Tuple[str, ...]


def grouped(patterns: Sequence[str]) -> List[Group]:
    """What the paths and patterns name.

    Raises:
      UsageError: where there is nothing, or a folder holds nothing that is known.
    """
    groups: List[Group] = []
    records: List[str] = []
    for pattern in patterns:
        path = paths.normalised(pattern)
        if files.is_folder(path):
            groups.append(_folder(path))
            continue
        if not files.exists(path):
            found = paths.files_matching(pattern)
        else:
            found = [path]
        for file in found:
            kind = _BY_NAME.get(os.path.splitext(file)[1].lower())
            if kind is None:
                records.append(file)
            else:
                groups.append(Group(kind, file, (file,)))
    if records:
        groups.append(Group(RECORDS, _named(records), tuple(records)))
    return groups


class Inspection:
    """What is in the files of a group.

    Args:
      group: the files.
      look_at: examples to look into.
      keep: examples to remember.

    Attributes:
      faults: what is damaged, as far as it was seen.
      verified_records: how many were found whole by `verify`.

    Raises:
      UsageError: for files that are missing, or are none of this kind.
    """

    def __init__(self, group: Group, *, look_at: int, keep: int):
        self.faults: List[Fault] = []
        self.verified_records = 0
        self._group = group
        self._look_at = look_at
        self._features = Features(keep=keep)
        self._manifest: Optional[Manifest] = None
        self._notes: List[str] = []
        self._to_verify: List[ToVerify] = []
        self._opaque: Dict[str, List[int]] = {}  # Files whose records are no examples, with the lengths of some.
        {
            CONVERTED: self._converted,
            RECORDS: self._records,
            IMAGES: self._images,
            CSV: self._table,
            JSON_LINES: self._table,
            NPZ: self._table,
        }[group.kind]()

    @property
    def has_records(self) -> bool:
        """Whether there are checksums to compare."""
        return bool(self._to_verify)

    def lines(self, *, examples: int) -> List[str]:
        """The whole account, with so many examples."""
        lines = [f"{self._group.name}: {self._notes[0]}", *(f"  {note}" for note in self._notes[1:])]
        if self._features.examples:
            lines.append(f"  looked into {self._features.examples:,} examples")
            lines += self._features.table()
        for number, kept in enumerate(self._features.kept[:examples]):
            lines.append(f"  example {number}")
            lines += [f"    {name}: {shown(values)}" for name, values in kept.items()]
        label = self._manifest.label if self._manifest else None
        classes = len(self._manifest.classes) if self._manifest and self._manifest.classes else None
        lines += [f"  TROUBLE {text}" for text in self._features.troubles(label=label, classes=classes)]
        return lines

    def pictures(self) -> List[Tuple[Any, int]]:
        """The pictures of the examples, each with its number."""
        found = [first_picture(kept) for kept in self._features.kept]
        return [(picture, number) for number, picture in enumerate(found) if picture is not None]

    def verify(self, *, processes: int) -> List[Fault]:
        """Reads all records; the faults that were not known yet."""
        found: List[Fault] = []
        known = {path: set(reasons) for path, reasons in self.faults}
        if not self._to_verify:
            return found
        for result in verified(self._to_verify, processes=processes):
            self.verified_records += result.records
            reasons = [reason for reason in result.faults if reason not in known.get(result.path, ())]
            if result.more:
                reasons.append(f"and {result.more:,} faults more")
            if reasons:
                found.append((result.path, reasons))
        return found

    def _converted(self) -> None:
        folder = self._group.files[0]
        manifest = self._manifest = Manifest.load(folder, check_files=False)
        packed = manifest.kind == PACKED
        size = example_bytes(manifest.features) if packed else None
        what = f"{manifest.examples_per_record} examples a record" if packed else "a tf.train.Example a record"
        self._notes.append(f"converted, {what}")
        for split, shards in manifest.splits.items():
            total = sum(shard.bytes for shard in shards)
            self._notes.append(
                f"{split}: {manifest.examples(split):,} examples in {len(shards):,} files, {_size(total)}"
            )
        if manifest.label is not None:
            named = f", {len(manifest.classes):,} classes: {_few(manifest.classes)}" if manifest.classes else ""
            self._notes.append(f"label: {manifest.label}{named}")
        files_of_all = [shard for parts in manifest.splits.values() for shard in parts]
        share = max(1, -(-self._look_at // max(1, len(files_of_all))))
        present = set(files.names_in(folder))
        for shard in files_of_all:
            path = join(folder, shard.file)
            if shard.file not in present:
                self.faults.append((path, ["it is missing, and the manifest lists it"]))
                continue
            self._to_verify.append(ToVerify(path, shard, size))
            found = files.size_of(path)
            if found != shard.bytes:
                self.faults.append((path, [f"it has {found:,} bytes, and the manifest says {shard.bytes:,}"]))
            self._look_into(path, "", share)

    def _records(self) -> None:
        sizes = records = 0
        compressions = set()
        share = max(1, -(-self._look_at // len(self._group.files)))
        for path in self._group.files:
            sizes += files.size_of(path)
            compression = compression_of(path)
            compressions.add(compression)
            self._to_verify.append(ToVerify(path))
            try:
                with records_of(path, compression) as file:
                    records += count_frames(file)
            except RecordFault as fault:
                self.faults.append((path, [str(fault)]))
                records += fault.record
            except BadStream as error:
                self.faults.append((path, [f"it cannot be read: {error}"]))
                continue
            self._look_into(path, compression, share)
        compressed = ", ".join(sorted(f"{each}-compressed" for each in compressions if each))
        count = len(self._group.files)
        parts = [f"{count:,} TFRecord file{'s' if count > 1 else ''}", f"{records:,} records", _size(sizes)]
        self._notes.append(", ".join([*parts, compressed] if compressed else parts))
        if self._opaque:
            self._notes.append(self._about_opaque())

    def _look_into(self, path: str, compression: str, share: int) -> None:
        """Takes the first examples of a file; what is damaged there shows at its place."""
        faults: List[str] = []
        seen = 0
        name = os.path.basename(path)
        try:
            with records_of(path, compression) as file:
                for number, (_, data) in enumerate(read_frames(file, on_fault=lambda fault: faults.append(str(fault)))):
                    if self._manifest is not None and self._manifest.kind == PACKED:
                        columns = unpack(data, self._manifest.features)
                        self._features.add_rows(columns, where=f"record {number} of {name}")
                        seen += len(next(iter(columns.values())))
                    else:
                        self._features.add(example.decode(data), where=f"record {number} of {name}")
                        seen += 1
                    if seen >= share:
                        break
        except example.NoExample as error:
            if seen:
                faults.append(f"record {seen + len(faults)}: {error}")
            else:
                self._opaque[name] = self._lengths(path, compression)
        except UsageError as error:
            faults.append(str(error))
        except BadStream as error:
            faults.append(f"it cannot be read: {error}")
        known = [reason for of_file, reasons in self.faults if of_file == path for reason in reasons]
        faults = [fault for fault in faults if fault not in known]
        if faults:
            self.faults.append((path, faults))

    def _about_opaque(self) -> str:
        """What can be said of records that are no examples."""
        names = list(self._opaque)
        # The last record of a file may be shorter.
        lengths = {length for of_file in self._opaque.values() for length in (of_file[:-1] or of_file)}
        if len(lengths) == 1:
            about = (
                f"all of {lengths.pop():,} bytes: packed ones perhaps, whose {FILE_NAME} is missing, and without it "
                "nobody knows what they hold"
            )
        else:
            about = f"of {min(lengths):,} to {max(lengths):,} bytes: another program's format"
        return f"{_named(names)}: the records are no tf.train.Examples, {about}"

    @staticmethod
    def _lengths(path: str, compression: str) -> List[int]:
        with records_of(path, compression) as file:
            return [len(data) for _, (_, data) in zip(range(100), read_frames(file, on_fault=lambda fault: None))]

    def _table(self) -> None:
        path, kind = self._group.files[0], self._group.kind
        if kind == CSV:
            note, faults = tables.inspect_csv(path, self._features, look_at=self._look_at)
        elif kind == JSON_LINES:
            note, faults = tables.inspect_json_lines(path, self._features, look_at=self._look_at)
        else:
            note, faults = tables.inspect_npz(path, self._features)
        self._notes.append(f"{note}, {_size(files.size_of(path))}")
        if faults:
            self.faults.append((path, faults))

    def _images(self) -> None:
        folder = self._group.files[0]
        classes: Dict[str, List[str]] = {}
        for name in files.names_in(folder):
            inside = join(folder, name)
            if files.is_folder(inside):
                found = [join(inside, each) for each in files.names_in(inside) if _is_picture(each)]
                if found:
                    classes[name] = found
        count = sum(map(len, classes.values()))
        total = sum(files.size_of(path) for found in classes.values() for path in found)
        self._notes.append(f"a folder of {count:,} pictures in {len(classes):,} classes, {_size(total)}")
        self._notes.append(", ".join(f"{name} {len(found):,}" for name, found in list(classes.items())[:12]))
        share = max(1, -(-self._look_at // len(classes)))
        for number, (_, found) in enumerate(classes.items()):
            for path in found[:share]:
                data = files.read_file(path)
                try:
                    read_header(data)
                except BadImage as error:
                    self.faults.append((path, [str(error)]))
                    continue
                self._features.add({"image": [data], "label": np.int64(number).reshape([])}, where=path)


def _folder(path: str) -> Group:
    names = files.names_in(path)
    if FILE_NAME in names:
        return Group(CONVERTED, path, (path,))
    records = tuple(join(path, name) for name in names if "tfrecord" in name.lower())
    if records:
        return Group(RECORDS, path, records)
    for name in names:
        inside = join(path, name)
        if files.is_folder(inside) and any(map(_is_picture, files.names_in(inside))):
            return Group(IMAGES, path, (path,))
    raise UsageError(
        f"{path} holds neither {FILE_NAME} nor TFRecord files nor a folder of pictures for each class: name the files"
    )


def _is_picture(name: str) -> bool:
    return name.lower().endswith(_PICTURES)


def _named(records: Sequence[str]) -> str:
    names = ", ".join(records[:_NAMED])
    return names if len(records) <= _NAMED else f"{names} and {len(records) - _NAMED} more"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _size(count: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
