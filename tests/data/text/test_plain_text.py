"""Plain text, a document a line or between blank lines."""

import pytest

from tpuloop.data.text import plain_text
from tpuloop.data.text.lines import split_into_ranges
from tpuloop.data.text.plain_text import read_documents
from tpuloop.errors import UsageError


@pytest.fixture
def read(tmp_path):
    def read(data, *, at_blank_lines, ranges=1, **options):
        path = tmp_path / "text.txt"
        path.write_bytes(data)
        parts = split_into_ranges(str(path), ranges, at_blank_lines=at_blank_lines)
        return [
            document for part in parts for document in read_documents(part, at_blank_lines=at_blank_lines, **options)
        ]

    return read


DATA = "\ufeff\nOne a.\r\nOne b.\r\n\r\n\n \nTwö.\n\nThree a.\nThree b.".encode()


def test_between_blank_lines(read):
    for ranges in range(1, 40):
        found = read(DATA, at_blank_lines=True, ranges=ranges)
        assert [document.text for document in found] == ["One a.\nOne b.", "Twö.", "Three a.\nThree b."]
        assert [document.offset for document in found] == [4, 25, 32]
        assert {document.path[-8:] for document in found} == {"text.txt"}


def test_a_document_a_line(read):
    for ranges in range(1, 40):
        found = read(DATA, at_blank_lines=False, ranges=ranges)
        assert [document.text for document in found] == ["One a.", "One b.", "Twö.", "Three a.", "Three b."]
        assert [document.offset for document in found] == [4, 12, 25, 32, 41]


def test_bytes_that_are_not_utf_8(read):
    for at_blank_lines in (False, True):
        with pytest.raises(UsageError, match=r"text.txt, line 3: byte 2 \(0xff\) is not UTF-8"):
            read(b"a\nb\nc\xff\n\nd", at_blank_lines=at_blank_lines)
    wrong = []
    found = read(b"a\nb\nc\xff\n\nd", at_blank_lines=True, on_bad=wrong.append)
    assert [document.text for document in found] == ["d"] and len(wrong) == 1


def test_a_document_without_end(read, monkeypatch):
    monkeypatch.setattr(plain_text, "LONGEST", 100)
    with pytest.raises(
        UsageError, match="text.txt, line 3: a document of more than .* begins here; separate documents"
    ):
        read(b"a\n\n" + b"b c d e f g\n" * 20, at_blank_lines=True)
    assert len(read(b"b c d e f g\n" * 20, at_blank_lines=False)) == 20
