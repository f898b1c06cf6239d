"""JSON lines of text: an object a line, such as {"text": "...", "label": 1}."""

import json
from typing import Any, Iterator, Optional

from tpuloop.data.text.documents import Document, OnBad, refuse
from tpuloop.data.text.lines import ByteRange, Line, decoded, place, read_lines
from tpuloop.errors import UsageError

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
    int: "a number",
    float: "a number",
}


def read_json_lines(
    part: ByteRange,
    *,
    text_field: str = "text",
    label_field: Optional[str] = None,
    on_bad: OnBad = refuse,
) -> Iterator[Document]:
    """The documents of a range of a file (see `lines.split_into_ranges`), in order. Blank lines are passed over.

    Args:
      part: of the file.
      text_field: the name of the field that holds the text.
      label_field: likewise for the label, an integer or a string; None for text without labels.
      on_bad: takes what is wrong with a line. Where it returns, the line is left out.

    Raises:
      UsageError: by way of `on_bad`, naming file, line and field, for what is not UTF-8, not JSON, not an object, or
        lacks a field.
      OSError: where the file cannot be read.
    """
    for line in read_lines(part):
        if line.data.strip():
            try:
                document = _document(line, part.path, text_field, label_field)
            except UsageError as error:
                on_bad(str(error))
                continue
            yield document


def _document(line: Line, path: str, text_field: str, label_field: Optional[str]) -> Document:
    fields = _object(line, path)
    text = _field(fields, text_field, "text_field", line, path)
    if not isinstance(text, str):
        raise _error(line, path, f"field {text_field!r} is {_kind(text)}, not a string")
    if not _is_unicode(text):
        raise _error(line, path, f"field {text_field!r} holds half of a surrogate pair, which is no character")
    if label_field is None:
        return Document(text, path=path, offset=line.offset)
    label = _field(fields, label_field, "label", line, path)
    if isinstance(label, bool) or not isinstance(label, (int, str)):
        raise _error(line, path, f"field {label_field!r} is {_kind(label)}, not an integer or a string")
    return Document(text, label, path, line.offset)


def _object(line: Line, path: str) -> Any:
    try:
        fields = json.loads(decoded(line, path))
    except json.JSONDecodeError as error:
        raise _error(line, path, f"not JSON: {error.msg} at column {error.colno}; write one object a line") from error
    except RecursionError as error:
        raise _error(line, path, "nested too deeply; write one object a line") from error
    if not isinstance(fields, dict):
        raise _error(line, path, f"{_kind(fields)}, not an object; write one object a line")
    return fields


def _field(fields: Any, name: str, flag: str, line: Line, path: str) -> Any:
    if name not in fields:
        there = ", ".join(map(repr, list(fields)[:10])) or "none"
        raise _error(line, path, f"there is no field {name!r}; the fields are {there}: name it with --{flag}")
    return fields[name]


def _error(line: Line, path: str, message: str) -> UsageError:
    return UsageError(f"{place(path, line.offset)}: {message}")


def _kind(value: Any) -> str:
    return _KINDS[type(value)]


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
