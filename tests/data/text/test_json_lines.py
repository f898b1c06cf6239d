"""JSON lines of text."""

import json

import pytest

from tpuloop.data.text.documents import Document, sentences
from tpuloop.data.text.json_lines import read_json_lines
from tpuloop.data.text.lines import split_into_ranges
from tpuloop.errors import UsageError


@pytest.fixture
def read(tmp_path):
    def read(data, *, ranges=1, **options):
        path = tmp_path / "data.jsonl"
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
        parts = split_into_ranges(str(path), ranges)
        return [document for part in parts for document in read_json_lines(part, **options)]

    return read


def test_by_hand(read):
    data = b'\xef\xbb\xbf{"text": "one", "label": 3}\r\n\n  \n{"label": "x", "text": "t\\u00e4t\\nb", "more": [1]}'
    found = read(data, label_field="label")
    path = found[0].path
    assert found == [Document("one", 3, path, 0), Document("tät\nb", "x", path, 36)]
    assert path.endswith("data.jsonl")
    assert [document.label for document in read(data)] == [None, None]
    assert [document.text for document in read('{"body": ""}\n', text_field="body")] == [""]


def test_ranges_hold_every_document_once(read):
    expected = [{"text": f"{n} " + "\u4e2d" * (n % 17), "label": n} for n in range(200)]
    data = "\n".join(json.dumps(one, ensure_ascii=n % 2 == 0) for n, one in enumerate(expected))
    for count in (1, 2, 3, 7, 50, 500):
        found = read(data, ranges=count, label_field="label")
        assert [{"text": one.text, "label": one.label} for one in found] == expected


GOOD = '{"text": "a", "label": 0}\n'


@pytest.mark.parametrize(
    "line, expected",
    [
        ('{"text": "a"', "not JSON: Expecting ',' delimiter at column 13; write one object a line"),
        ("text", "not JSON: Expecting value at column 1"),
        ("[1, 2]", "a list, not an object; write one object a line"),
        ('"text"', "a string, not an object"),
        ("null", "null, not an object"),
        (
            '{"txt": "a", "label": 1}',
            "there is no field 'text'; the fields are 'txt', 'label': name it with --text_field",
        ),
        ("{}", "there is no field 'text'; the fields are none: name it with --text_field"),
        ('{"text": 5}', "field 'text' is a number, not a string"),
        ('{"text": null}', "field 'text' is null, not a string"),
        ('{"text": {"a": 1}}', "field 'text' is an object, not a string"),
        ('{"text": "\\ud83d"}', "field 'text' holds half of a surrogate pair"),
        ('{"text": "a"}', "there is no field 'label'; the fields are 'text': name it with --label"),
        ('{"text": "a", "label": 0.5}', "field 'label' is a number, not an integer or a string"),
        ('{"text": "a", "label": true}', "field 'label' is true or false, not an integer or a string"),
        (b'{"text": "\xe4"}', r"byte 11 \(0xe4\) is not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("ranges", [1, 3])
def test_lines_that_are_wrong(read, line, expected, ranges):
    data = (GOOD * 20).encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n" + GOOD.encode()
    with pytest.raises(UsageError, match=f"data.jsonl, line 21: {expected}") as error:
        read(data, ranges=ranges, label_field="label")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("v1.2 is out.  It works.", ["v1.2 is out.", "It works."]),
        ("One. Two.\n\n Three. \n", ["One. Two.", "Three."]),
        ("One. Two.\n", ["One.", "Two."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


def test_wrong_lines_are_left_out_where_asked(read):
    wrong = []
    found = read('{"text": "a"}\n{}\n[]\n{"text": "b"}\n', on_bad=wrong.append)
    assert [document.text for document in found] == ["a", "b"]
    assert [text.partition(": ")[0].rpartition(", ")[2] for text in wrong] == ["line 2", "line 3"]
