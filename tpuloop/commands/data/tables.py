"""What is in files that are no records: CSV, .npz and lines of JSON. Read line by line, or by their headers."""

import csv
import json
import zipfile
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from tpuloop.commands.data.features import Features
from tpuloop.data.convert.input_files import opened_input

_MOST = 20  # Faults of a file.
_LOADED = 1 << 26  # Bytes of an array whose values are looked at.


def inspect_csv(path: str, features: Features, *, look_at: int) -> Tuple[str, List[str]]:
    """A line on the file, and its faults; its columns go to `features`."""
    faults: List[str] = []
    count, names = 0, []  # type: Tuple[int, List[str]]
    with opened_input(path) as file:
        rows = csv.reader(_decoded(file, faults), delimiter="\t" if path.endswith(".tsv") else ",")
        try:
            for row in rows:
                if not names:
                    names = row
                    continue
                if not row:
                    continue
                count += 1
                if len(row) != len(names):
                    _note(faults, f"line {rows.line_num}: {len(row)} fields, and the header has {len(names)}")
                elif count <= look_at:
                    cells = {name: _cell(text) for name, text in zip(names, row) if text.strip()}
                    features.add(cells, where=f"line {rows.line_num}")
        except csv.Error as error:
            _note(faults, f"line {rows.line_num}: {error}")
    return f"CSV file, {count:,} rows of {len(names)} columns", faults


def inspect_json_lines(path: str, features: Features, *, look_at: int) -> Tuple[str, List[str]]:
    """The same of a file with a JSON object a line."""
    faults: List[str] = []
    count = 0
    with opened_input(path) as file:
        for number, line in enumerate(_decoded(file, faults), start=1):
            if not line.strip():
                continue
            count += 1
            if count > look_at:
                continue
            try:
                content = json.loads(line)
            except ValueError as error:
                _note(faults, f"line {number}: no JSON: {error}")
                continue
            if not isinstance(content, dict):
                _note(faults, f"line {number}: a {type(content).__name__} and no object")
                continue
            example = {name: _json_value(value) for name, value in content.items() if value is not None}
            features.add(example, where=f"line {number}")
    return f"JSON lines, {count:,} objects", faults


def inspect_npz(path: str, features: Features) -> Tuple[str, List[str]]:
    """The same of a NumPy archive, of which only headers and small arrays are read."""
    faults: List[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            headers = {name: _header(archive, name) for name in archive.namelist()}
        with np.load(path, allow_pickle=False) as arrays:
            columns = {name[:-4]: header for name, header in headers.items() if name.endswith(".npy")}
            lengths = {shape[0] for shape, _ in columns.values() if shape}
            if len(lengths) > 1:
                listed = ", ".join(f"{name} {list(shape)}" for name, (shape, _) in columns.items())
                faults.append(f"the arrays differ in their first dimension, the examples: {listed}")
            small: Dict[str, np.ndarray] = {}
            for name, (shape, dtype) in columns.items():
                if dtype.hasobject:
                    faults.append(f"{name} holds Python objects, which are not loaded: save numbers or strings")
                elif shape and np.prod(shape) * dtype.itemsize <= _LOADED:
                    small[name] = arrays[name]
            if small and len({len(values) for values in small.values()}) == 1:
                features.add_rows(small, where=path)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        return "NumPy archive", [f"it is damaged: {error}"]
    listed = "; ".join(f"{name} {dtype} {list(shape)}" for name, (shape, dtype) in columns.items())
    return f"NumPy archive: {listed}", faults


def _header(archive: zipfile.ZipFile, name: str) -> Tuple[Tuple[int, ...], np.dtype]:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return shape, dtype


def _decoded(file: Any, faults: List[str]) -> Iterator[str]:
    """The lines as text, without those that are none."""
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            _note(faults, f"line {number}: not UTF-8 at byte {error.start}")


def _note(faults: List[str], fault: str) -> None:
    if len(faults) < _MOST:
        faults.append(fault)


def _cell(text: str) -> Any:
    for convert, dtype in ((int, np.int64), (float, np.float32)):
        try:
            return np.array(convert(text), dtype)
        except (ValueError, OverflowError):
            continue
    return [text.encode()]


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        return [value.encode()]
    values = np.array(value) if not isinstance(value, dict) else np.array(None)
    return values if values.dtype.kind in "biuf" else [json.dumps(value).encode()]
