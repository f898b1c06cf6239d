"""Rows of a CSV file as arrays: all at once where nothing is wrong with them, else one by one to say what is."""

import csv
import io
import itertools
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.convert.csv_columns import Table, limits
from tpuloop.data.convert.csv_plain import plain_table
from tpuloop.data.convert.csv_rows import MAX_ROW_BYTES, Block
from tpuloop.data.records.manifest import Feature

_SHOWN = 40  # Characters of a value in a message.
_EXACT = 2**53  # A float64 below it is as exact as its text.


class Parser:
    """Makes arrays of blocks.

    Args:
      path: of the file, for errors.
      table: its columns.
      delimiter: one character.
    """

    def __init__(self, *, path: str, table: Table, delimiter: str):
        self._path, self._table, self._delimiter = path, table, delimiter
        self._pickers = [_picker(group.columns) for group in table.groups]
        self._classes = None if table.classes is None else {name: i for i, name in enumerate(table.classes)}
        csv.field_size_limit(MAX_ROW_BYTES)  # Rows are no longer; the limit is the process's, and this is a worker.

    def parse(
        self, block: Block, *, first_row: int, on_bad: Callable[[str], None]
    ) -> Tuple[np.ndarray, Dict[str, np.ndarray]]:
        """The examples of a block.

        Args:
          block: whole rows.
          first_row: the number of its first row, from 1, as an editor counts those of the file.
          on_bad: takes what is wrong with a row.

        Returns:
          The index in the block of each row that gives an example, int64 [n]; and by feature, arrays [n, ...].
        """
        count = len(block.ends)
        table = self._plain_columns(block)
        if table is not None:
            return np.arange(count), table
        try:
            text = block.data.decode()
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter))
            if len(rows) == count:
                return np.arange(count), self._arrays(rows, underscores="_" in text)
        except (ValueError, csv.Error, OverflowError):
            pass
        return self._one_by_one(block, first_row, on_bad)

    def _plain_columns(self, block: Block) -> Optional[Dict[str, np.ndarray]]:
        """The arrays of a block of plain numbers; None for any other, or one with a number that does not fit."""
        if self._classes is not None:
            return None
        table = self._table
        values = plain_table(block, width=len(table.names), delimiter=self._delimiter)
        if values is None:
            return None
        taken = [(group.feature, _slice_or_list(group.columns)) for group in table.groups]
        if table.label is not None:
            taken.append((table.features[-1], slice(table.label, table.label + 1)))
        try:
            return {feature.name: _shaped(_stored(values[:, columns], feature), feature) for feature, columns in taken}
        except ValueError:
            return None

    def _one_by_one(self, block: Block, first_row: int, on_bad: Callable[[str], None]) -> Any:
        good, indices = [], []
        for index in range(len(block.ends)):
            data = block.row(index)
            if not data.strip(b"\r\n"):
                continue
            try:
                row = self._row(data)
                self._arrays([row], underscores="_" in "".join(row))
            except BadRow as wrong:
                on_bad(f"{self._path}, row {first_row + index}{wrong}")
            except (ValueError, OverflowError):
                on_bad(f"{self._path}, row {first_row + index}{self._what_is_wrong(row)}")
            else:
                good.append(row)
                indices.append(index)
        return np.array(indices, np.int64), self._arrays(good, underscores=False)

    def _row(self, data: bytes) -> List[str]:
        row, names = split_row(data, delimiter=self._delimiter), self._table.names
        if len(row) != len(names):
            raise BadRow(
                f" has {len(row)} fields, and the first row has {len(names)}: mend it"
                f"{', or put quotes around fields that hold the delimiter' if len(row) > len(names) else ''}"
            )
        return row

    def _arrays(self, rows: Sequence[Sequence[str]], *, underscores: bool) -> Dict[str, np.ndarray]:
        """The arrays of rows.

        Raises:
          ValueError: where any field is not what its feature takes.
        """
        width = len(self._table.names)
        if rows and not (len(set(map(len, rows))) == 1 and len(rows[0]) == width):
            raise ValueError("a row has another number of fields")
        columns = {}
        for group, pick in zip(self._table.groups, self._pickers):
            columns[group.feature.name] = _numbers(group.feature, rows, pick, underscores)
        label = self._table.label
        if label is not None:
            pick = operator.itemgetter(slice(label, label + 1))
            feature = self._table.features[-1]
            if self._classes is None:
                columns[feature.name] = _numbers(feature, rows, pick, underscores)
            else:
                try:
                    numbers = [self._classes[row[label]] for row in rows]
                except KeyError as error:
                    raise ValueError(f"no class {error}") from error
                columns[feature.name] = np.array(numbers, np.int64)
        return columns

    def _what_is_wrong(self, row: Sequence[str]) -> str:
        """With a row that has the right number of fields, the first field that is not what it must be."""
        names = self._table.names
        fields: Dict[int, Feature] = {column: group.feature for group in self._table.groups for column in group.columns}
        if self._table.label is not None and self._classes is None:
            fields[self._table.label] = self._table.features[-1]
        for column in sorted(fields):
            wrong = _wrong_field(row[column], fields[column])
            if wrong:
                remedy = f"or leave the column out (--drop={names[column]})" if column != self._table.label else ""
                return (
                    f", column {names[column]!r}: {wrong}: mend it, {remedy + ', ' if remedy else ''}"
                    "or leave such rows out (--on_bad_record=skip)"
                )
        label = row[self._table.label] if self._table.label is not None else ""
        return f", column {names[self._table.label or 0]!r}: {_shown(label)} is no class: the field is empty"


class BadRow(ValueError):
    """What is wrong with a row, to stand behind its number."""


def split_row(data: bytes, *, delimiter: str) -> List[str]:
    """The fields of one row.

    Raises:
      BadRow: where it is no row of text.
    """
    if b"\0" in data:
        raise BadRow(": it holds a NUL byte: is this UTF-8 text? Remove it")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadRow(
            f": the byte 0x{data[error.start]:02x} is not UTF-8 (in {_shown(data.decode(errors='replace').strip())}): "
            "save the file as UTF-8, as with iconv -f latin1 -t utf-8"
        ) from error
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise BadRow(f": {error}") from error
    if len(rows) != 1:
        raise BadRow(": a carriage return stands alone in it: save the file with plain line ends")
    return rows[0]


def _slice_or_list(columns: Sequence[int]) -> Any:
    """Columns as a slice, which is quicker, where they stand side by side."""
    if list(columns) == list(range(columns[0], columns[0] + len(columns))):
        return slice(columns[0], columns[0] + len(columns))
    return list(columns)


def _picker(columns: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """Takes the fields of a feature out of a row."""
    chosen = _slice_or_list(columns)
    return operator.itemgetter(chosen) if isinstance(chosen, slice) else operator.itemgetter(*chosen)


def _numbers(
    feature: Feature, rows: Sequence[Sequence[str]], pick: Callable[[Sequence[str]], Sequence[str]], underscores: bool
) -> np.ndarray:
    """The values of a feature, an array [n, ...].

    Raises:
      ValueError: where a field is no such number.
      OverflowError: where it is too large for 64 bits.
    """
    fields = list(itertools.chain.from_iterable(map(pick, rows)))
    if underscores and any("_" in field for field in fields):
        raise ValueError("Python would take an underscore as a part of a number")
    values = np.fromiter(map(float, fields), np.float64, len(fields)) if feature.dtype.startswith("float") else None
    if values is None:
        try:
            values = np.fromiter(map(int, fields), np.int64, len(fields))
        except ValueError:  # 3.0 is a whole number too.
            values = np.fromiter(map(float, fields), np.float64, len(fields))
    return _shaped(_stored(values, feature), feature)


def _shaped(values: np.ndarray, feature: Feature) -> np.ndarray:
    return values.reshape([-1, *feature.shape])  # type: ignore[list-item]


def _stored(values: np.ndarray, feature: Feature) -> np.ndarray:
    """int64 or float64 values in the dtype of their feature.

    Raises:
      ValueError: where it does not hold one of them.
    """
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            stored = values.astype(dtype)
        if not np.isfinite(stored).all():
            raise ValueError("not finite")
        return stored
    if values.dtype.kind == "f":
        if not (np.abs(values) < _EXACT).all() or (values != np.floor(values)).any():
            raise ValueError("not whole")
        values = values.astype(np.int64)
    low, high = limits(feature.dtype)
    if values.size and (values.min() < low or values.max() > high):
        raise ValueError("out of range")
    return values.astype(dtype)


def _wrong_field(text: str, feature: Feature) -> Optional[str]:
    """What is wrong with one field of numbers, if anything."""
    if not text.strip():
        return "the field is empty"
    if feature.dtype.startswith("float"):
        value = as_number(text)
        if value is None:
            return f"{_shown(text)} is no number"
        with np.errstate(over="ignore"):
            return (
                None if np.isfinite(np.array(value, feature.dtype)) else f"{_shown(text)} is no finite {feature.dtype}"
            )
    low, high = limits(feature.dtype)
    try:
        whole = int("no" if "_" in text else text)
    except ValueError:
        value = as_number(text)
        if value is None or not (abs(value) < _EXACT and value == int(value)):
            return f"{_shown(text)} is no whole number"
        whole = int(value)
    return None if low <= whole <= high else f"{_shown(text)} does not fit {feature.dtype} ({low} to {high})"


def as_number(text: str) -> Optional[float]:
    """The number that a field is, if it is one; not a number is none."""
    try:
        value = float("no" if "_" in text else text)
    except ValueError:
        return None
    return None if value != value else value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
