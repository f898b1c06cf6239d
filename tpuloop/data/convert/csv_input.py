"""Tables of numbers in CSV files."""

import array
import dataclasses
import itertools
import logging
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from tpuloop.data.convert.csv_columns import Table, grouped, named_column
from tpuloop.data.convert.csv_parse import BadRow, Parser, as_number, split_row
from tpuloop.data.convert.csv_rows import Block, read_blocks
from tpuloop.data.convert.input_files import fingerprint, opened_input
from tpuloop.data.convert.input_kind import Batch, Contents, Input, InputKind, OnBad
from tpuloop.data.records.manifest import PACKED
from tpuloop.errors import UsageError

logger = logging.getLogger("tpuloop")

_STRIDE = 1024  # Rows between two whose places are kept: 8 bytes for each, however long the file.
_SAMPLE_ROWS = 1000  # What a column holds is judged by these.
_MANY_CLASSES = 100_000
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclasses.dataclass(frozen=True)
class _File:
    """One file, and where its rows are.

    Attributes:
      path: of the file.
      header: its first rows that are no examples, 0 or 1.
      rows: all others, blank ones too.
      offsets: of every _STRIDE-th of these rows.
    """

    path: str
    header: int
    rows: int
    offsets: "array.array[int]"


class CsvKind(InputKind):
    """Tables whose columns are numbers, and perhaps a label."""

    name = "csv"
    summary = "CSV files: a table of numbers, and a column of labels"
    flags = ("label", "drop", "columns", "header", "delimiter")

    def recognises(self, path: str) -> bool:
        """By its ending."""
        return path.lower().endswith((".csv", ".tsv"))

    def define_flags(self) -> None:
        """How tables are read."""
        from absl import flags

        flags.DEFINE_enum(
            "header", None, ["auto", "yes", "no"], "CSV: whether the first row holds names. Default: auto."
        )
        flags.DEFINE_string("delimiter", None, "CSV: between fields, or tab. Default: , and a tab in .tsv files.")
        flags.DEFINE_string(
            "columns",
            None,
            "CSV: features of their own, such as ids:int32[128] of the columns ids_0 to ids_127, or age:int64; all "
            "other columns together are the feature x, float32.",
        )

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Finds the rows, the columns, and the values of a label that is text."""
        del workers
        delimiter = _delimiter(options["delimiter"], paths[0])
        table, header = _table(paths[0], delimiter, options)
        labels: Optional[Set[str]] = None
        if table.label is not None and table.classes is not None:
            labels = set()
        files = []
        for path in paths:
            if path != paths[0]:
                _check_same_columns(path, paths[0], table, header, delimiter)
            files.append(_indexed(path, table=table, header=header, delimiter=delimiter, labels=labels))
        if labels is not None:
            table = dataclasses.replace(table, classes=tuple(sorted(labels)))
        return CsvInput(files=files, table=table, delimiter=delimiter, source=fingerprint(paths))


class CsvInput(Input):
    """Scanned files.

    Args:
      files: in order.
      table: the columns of all.
      delimiter: one character.
      source: the files' sizes and times.
    """

    def __init__(self, *, files: Sequence[_File], table: Table, delimiter: str, source: Mapping[str, Any]):
        self._files, self._table, self._delimiter = tuple(files), table, delimiter
        self._source = source

    @property
    def contents(self) -> Contents:
        """Packed features of numbers; a unit is a row."""
        table = self._table
        columns = {group.feature.name: [table.names[column] for column in group.columns] for group in table.groups}
        if table.label is not None:
            columns["y"] = [table.names[table.label]]
        return Contents(
            features=table.features,
            kind=PACKED,
            units=sum(file.rows for file in self._files),
            bytes=sum(file["bytes"] for file in self._source["files"]),
            unit="rows",
            label=None if table.label is None else "y",
            classes=table.classes,
            made={"columns": columns},
            source=self._source,
        )

    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """A batch for each block of rows."""
        first = 0  # The number of the file's first row, in all files.
        for file in self._files:
            low, high = max(start - first, 0), min(stop - first, file.rows)
            if low < high:
                parser = Parser(path=file.path, table=self._table, delimiter=self._delimiter)
                for row, block in _blocks(file, low, high, self._delimiter):
                    indices, columns = parser.parse(block, first_row=row + file.header + 1, on_bad=on_bad)
                    yield Batch(numbers=indices + (first + row), columns=columns, units=len(block.ends))
            first += file.rows


def _blocks(file: _File, start: int, stop: int, delimiter: str) -> Iterator[Tuple[int, Block]]:
    """The rows from `start` to before `stop` of a file, in blocks, each with the number of its first."""
    row = start // _STRIDE * _STRIDE
    offset = file.offsets[start // _STRIDE]
    with opened_input(file.path) as opened:
        blocks = read_blocks(
            opened, path=file.path, delimiter=delimiter.encode(), offset=offset, first_row=row + file.header + 1
        )
        for block in blocks:
            low, high = max(start - row, 0), min(stop - row, len(block.ends))
            if low < high:
                yield row + low, _part(block, low, high)
            row += len(block.ends)
            if row >= stop:
                return


def _part(block: Block, low: int, high: int) -> Block:
    if low == 0 and high == len(block.ends):
        return block
    begin = int(block.ends[low - 1]) if low else 0
    return Block(block.offset + begin, block.data[begin : int(block.ends[high - 1])], block.ends[low:high] - begin)


def _delimiter(given: Optional[str], path: str) -> str:
    if given is None:
        return "\t" if path.lower().endswith(".tsv") else ","
    delimiter = "\t" if given in ("tab", "\\t") else given
    if len(delimiter.encode()) != 1 or delimiter in '\r\n"':
        raise UsageError(f"--delimiter={given}: it must be one character of ASCII, such as ; or the word tab")
    return delimiter


def _start(path: str) -> int:
    """Where the text begins: behind a byte-order mark, if there is one."""
    with opened_input(path) as file:
        head = file.read(3)
    if head[:2] in _UTF_16:
        raise UsageError(f"{path} is UTF-16: save it as UTF-8, as with iconv -f utf-16 -t utf-8")
    if not head:
        raise UsageError(f"{path} is empty: give a file with rows")
    return len(_BOM) if head == _BOM else 0


def _first_rows(path: str, delimiter: str, count: int) -> List[List[str]]:
    """The first rows that are not blank. A bad one is told when it is converted, unless it is the first."""
    rows: List[List[str]] = []
    with opened_input(path) as file:
        number = 0
        for block in read_blocks(file, path=path, delimiter=delimiter.encode(), offset=_start(path), first_row=1):
            for index in range(min(len(block.ends), count - len(rows))):
                data = block.row(index)
                number += 1
                if not data.strip(b"\r\n"):
                    continue
                try:
                    rows.append(split_row(data, delimiter=delimiter))
                except BadRow as wrong:
                    if not rows:
                        raise UsageError(f"{path}, row {number}{wrong}") from wrong
            if len(rows) >= count:
                break
    if not rows:
        raise UsageError(f"{path} holds nothing but blank lines: give a file with rows")
    return rows


def _table(path: str, delimiter: str, options: Mapping[str, Any]) -> Tuple[Table, int]:
    """The columns by the first file, and how many rows its header has."""
    rows = _first_rows(path, delimiter, _SAMPLE_ROWS)
    header = {"yes": 1, "no": 0}.get(options["header"] or "auto", int(_looks_like_names(rows)))
    first, samples = rows[0], [row for row in rows[header:] if len(row) == len(rows[0])]
    if header and len(rows) == 1:
        raise UsageError(f"{path} holds names of columns and no row below: give a file with rows")
    names = [name.strip() for name in first] if header else [str(index) for index in range(len(first))]
    if len(names) == 1:
        other = next((mark for mark in ";\t|" if mark in first[0]), None)
        if other:
            shown = "tab" if other == "\t" else other
            raise UsageError(f"{path} has one column: if {shown} is between its fields, give --delimiter='{shown}'")
    label = None if options["label"] is None else named_column(names, options["label"], "label")
    dropped = [named_column(names, name, "drop") for name in options["drop"] or ()]
    if label in dropped:
        raise UsageError(f"--drop={options['label']}: that is the label")
    groups = grouped(names, label=label, dropped=dropped, spec=options["columns"])
    table = Table(tuple(names), groups, label)
    _check_numbers(path, table, samples)
    if label is None:
        return table, header
    values = [row[label] for row in samples if row[label].strip()]
    if not all(as_number(value) is not None for value in values):
        return dataclasses.replace(table, classes=()), header
    whole = all(_is_whole(value) for value in values)
    if whole and values and min(map(int, values)) != 0:
        logger.info(
            "note: the label %r does not begin at 0; its values are kept, and a loss of class numbers wants 0 to n-1",
            names[label],
        )
    return dataclasses.replace(table, label_dtype="int64" if whole else "float32"), header


def _looks_like_names(rows: Sequence[Sequence[str]]) -> bool:
    """A first row without numbers is names where a number, or nothing, stands below it."""
    if any(as_number(field) is not None for field in rows[0]):
        return False
    return len(rows) == 1 or any(as_number(field) is not None for row in rows[1:3] for field in row)


def _check_numbers(path: str, table: Table, samples: Sequence[Sequence[str]]) -> None:
    """A column that is text throughout is no bad row, but a wrong choice of columns."""
    texts = []
    for group in table.groups:
        for column in group.columns:
            values = [row[column] for row in samples if row[column].strip()]
            if values and all(as_number(value) is None for value in values):
                texts.append((table.names[column], values[0]))
    if texts:
        name, value = texts[0]
        every = ",".join(text for text, _ in texts)
        also = "" if len(texts) == 1 else f", and so on in {len(texts)} columns"
        raise UsageError(
            f"{path}: the column {name!r} is text ({value[:40]!r}{also}): leave it out with --drop={every}, "
            f"or name it with --label={name}"
        )


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _check_same_columns(path: str, first: str, table: Table, header: int, delimiter: str) -> None:
    row = _first_rows(path, delimiter, 1)[0]
    if len(row) != len(table.names):
        raise UsageError(f"{path} has {len(row)} columns, and {first} has {len(table.names)}: convert them apart")
    for name, expected in zip(row if header else (), table.names):
        if name.strip() != expected:
            raise UsageError(f"{path} has a column {name!r} where {first} has {expected!r}: convert them apart")


def _indexed(path: str, *, table: Table, header: int, delimiter: str, labels: Optional[Set[str]]) -> _File:
    """Counts the rows, and adds the values of the label to `labels`."""
    offsets: array.array[int] = array.array("q")
    row = -header
    with opened_input(path) as file:
        for block in read_blocks(file, path=path, delimiter=delimiter.encode(), offset=_start(path), first_row=1):
            count = len(block.ends)
            # The first of the block's rows whose place is kept.
            kept = max(-(-row // _STRIDE) * _STRIDE, 0)
            for number in range(kept - row, count, _STRIDE):
                offsets.append(block.offset + (int(block.ends[number - 1]) if number else 0))
            if labels is not None:
                labels.update(_label_values(block, max(-row, 0), table, delimiter))
                if len(labels) > _MANY_CLASSES:
                    name = table.names[table.label or 0]
                    raise UsageError(f"--label={name}: it has over {_MANY_CLASSES:,} different values: is it no class?")
            row += count
    if row <= 0:
        raise UsageError(f"{path} holds names of columns and no row below: give a file with rows")
    return _File(path, header, row, offsets)


def _label_values(block: Block, skip: int, table: Table, delimiter: str) -> Set[str]:
    """The different labels of a block's rows from number `skip` on, those of rows that cannot be used left out."""
    assert table.label is not None
    width, column = len(table.names), table.label
    if b'"' not in block.data:
        mark = delimiter.encode()
        found = set()
        for line in itertools.islice(block.data.split(b"\n"), skip, None):
            fields = line.rstrip(b"\r").split(mark)
            if len(fields) == width:
                found.add(fields[column])
        return {value.decode() for value in found if value and _is_utf_8(value)}
    values = set()
    for index in range(skip, len(block.ends)):
        try:
            row = split_row(block.row(index), delimiter=delimiter)
        except BadRow:
            continue
        if len(row) == width and row[column]:
            values.add(row[column])
    return values


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
