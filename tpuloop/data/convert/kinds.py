"""The kinds of input there are. One more is a module and a line here."""

import importlib
import os
from typing import Dict, Optional, Sequence

from tpuloop.data.convert.input_kind import InputKind
from tpuloop.errors import UsageError
from tpuloop.paths import is_remote

_WHERE = {
    "csv": "tpuloop.data.convert.csv_input:CsvKind",
    "npz": "tpuloop.data.convert.npz_input:NpzKind",
    "images": "tpuloop.data.convert.image_input:ImageKind",
    "tfrecord": "tpuloop.data.convert.tfrecord_input:TFRecordKind",
    "text": "tpuloop.data.convert.text_input:TextKind",
    "jsonl": "tpuloop.data.convert.text_input:JsonLinesKind",
}


def all_kinds() -> Dict[str, InputKind]:
    """Every kind by its name."""
    kinds = {}
    for name, reference in _WHERE.items():
        module, _, kind = reference.partition(":")
        kinds[name] = getattr(importlib.import_module(module), kind)()
    return kinds


def kind_of(paths: Sequence[str], name: Optional[str], kinds: Dict[str, InputKind]) -> InputKind:
    """The kind that was named, or that the paths look like.

    Raises:
      UsageError: where there is no such kind, or the paths are of none or of several.
    """
    listed = ", ".join(kinds)
    if name is not None:
        if name not in kinds:
            raise UsageError(f"--format {name!r} is unknown: use one of {listed}")
        return kinds[name]
    found: Dict[str, str] = {}
    for path in paths:
        matching = [kind.name for kind in kinds.values() if kind.recognises(path)]
        if not matching:
            if not is_remote(path) and not os.path.exists(path):
                raise UsageError(f"{path}: there is no such file")
            told = f"by its name {os.path.basename(path)!r}" if os.path.basename(path) else "by its name"
            raise UsageError(f"{path}: what it holds cannot be told {told}: give --format, one of {listed}")
        found.setdefault(matching[0], path)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UsageError(f"{first} is {one} and {second} is {other}: convert one kind at a time, or give --format")
    return kinds[next(iter(found))]
