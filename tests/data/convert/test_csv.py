"""CSV files as people have them: what is read, and what is said of what cannot be."""

import csv
import io
import random
import re

import numpy as np
import pytest

from tpuloop.data.convert import csv_rows
from tpuloop.data.convert.csv_rows import RowEnds
from tpuloop.errors import UsageError


@pytest.fixture
def table(tmp_path):
    """`table(text)`: the path of a file."""

    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def error(table, scan, read):
    """`error(text, ...)`: the one line that is said of a file, without its name."""

    def say(text, **options):
        path, bad = table(text), []
        with pytest.raises(UsageError) as caught:
            read(scan("csv", path, **options), bad=bad)
            raise UsageError(bad[0])
        message = str(caught.value)
        assert "\n" not in message
        return message.replace(str(path), "FILE")

    return say


def test_numbers_and_a_label_of_text(table, scan, read):
    data = scan("csv", table("a,b,kind\n1,2.5,pear\n3,-4,apple\n5e1,6,pear\n"), label="kind")
    contents = data.contents
    assert [(f.name, f.dtype, f.shape) for f in contents.features] == [("x", "float32", (2,)), ("y", "int64", ())]
    assert (contents.classes, contents.label, contents.units) == (("apple", "pear"), "y", 3)
    assert contents.made == {"columns": {"x": ["a", "b"], "y": ["kind"]}}
    numbers, columns = read(data)
    assert numbers == [0, 1, 2]
    assert columns["x"].tolist() == [[1, 2.5], [3, -4], [50, 6]] and columns["x"].dtype == np.float32
    assert columns["y"].tolist() == [1, 0, 1] and columns["y"].dtype == np.int64


def test_whole_labels_stay_and_others_are_numbers_to_predict(table, scan, read):
    whole = scan("csv", table("a,y\n1,2\n3,0\n"), label="y")
    assert whole.contents.classes is None and read(whole)[1]["y"].tolist() == [2, 0]
    real = scan("csv", table("a,y\n1,2.5\n3,0\n"), label="y")
    assert read(real)[1]["y"].tolist() == [2.5, 0] and read(real)[1]["y"].dtype == np.float32


def test_without_a_label_all_columns_are_x(table, scan, read):
    assert list(read(scan("csv", table("a,b\n1,2\n")))[1]) == ["x"]


def test_features_of_their_own(table, scan, read):
    text = "ids_1,ids_0,mask,z,w\n2,1,1,0.5,9\n4.0,3,0,1.5,8\n"
    data = scan("csv", table(text), columns="ids:int16[2],mask:bool,w:float64", drop=["z"])
    numbers, columns = read(data)
    assert {name: (values.tolist(), values.dtype.name) for name, values in columns.items()} == {
        "ids": ([[1, 2], [3, 4]], "int16"),
        "mask": ([True, False], "bool"),
        "w": ([9, 8], "float64"),
    }


@pytest.mark.parametrize(
    "options, message",
    [
        ({"label": "kin"}, "--label=kin: there is no such column; did you mean 'kind'?: the columns are a, b, kind"),
        ({"drop": ["q"], "label": "kind"}, "--drop=q: there is no such column"),
        ({"drop": ["kind"], "label": "kind"}, "--drop=kind: that is the label"),
        ({"drop": ["a", "b"], "label": "kind"}, "no column is left to learn from"),
        ({"columns": "a:int3", "label": "kind"}, "--columns: 'a:int3' is no NAME:DTYPE[COLUMNS]"),
        ({"columns": "a:int8[2]", "label": "kind"}, "--columns=a_0: there is no such column"),
        ({"columns": "kind:int8", "label": "kind"}, "--columns: 'kind' is the label, left out, or in two features"),
        ({}, "the column 'kind' is text ('pear'): leave it out with --drop=kind, or name it with --label=kind"),
        ({"delimiter": ";;"}, "--delimiter=;;: it must be one character"),
    ],
)
def test_a_wrong_choice_of_columns(error, options, message):
    assert message in error("a,b,kind\n1,2,pear\n", **options)


# Each file, with the label "y", and what must be said of it. The header is row 1.
BAD = {
    "a short row": ("a,y\n1,0\n2\n", "FILE, row 3 has 1 fields, and the first row has 2: mend it"),
    "a long row": ("a,y\n1,0\n2,1,3\n", "FILE, row 3 has 3 fields, and the first row has 2: mend it, or put quotes"),
    "rows that even out": ("a,y\n1,0,5\n2\n3,1\n", "FILE, row 2 has 3 fields, and the first row has 2"),
    "no number": ("a,y\n1,0\n1.2.3,1\n", "FILE, row 3, column 'a': '1.2.3' is no number: mend it, or leave the column"),
    "a word": ("a,y\n1,0\nn/a,1\n", "FILE, row 3, column 'a': 'n/a' is no number"),
    "nan": ("a,y\n1,0\nnan,1\n", "FILE, row 3, column 'a': 'nan' is no number"),
    "inf": ("a,y\n1,0\ninf,1\n", "FILE, row 3, column 'a': 'inf' is no finite float32"),
    "too large": ("a,y\n1,0\n1e39,1\n", "FILE, row 3, column 'a': '1e39' is no finite float32"),
    "an underscore": ("a,y\n1,0\n1_000,1\n", "FILE, row 3, column 'a': '1_000' is no number"),
    "hexadecimal": ("a,y\n1,0\n0x10,1\n", "FILE, row 3, column 'a': '0x10' is no number"),
    "an empty field": ("a,y\n1,0\n,1\n", "FILE, row 3, column 'a': the field is empty: mend it"),
    "blank": ("a,y\n1,0\n  ,1\n", "FILE, row 3, column 'a': the field is empty"),
    "an empty label": ("a,y\n1,0\n2,\n", "FILE, row 3, column 'y': the field is empty"),
    "an empty text label": ("a,y\n1,p\n2,\n", "FILE, row 3, column 'y': '' is no class: the field is empty"),
    "half a label": ("a,y\n" + 1001 * "1,0\n" + "1,0.5\n", "FILE, row 1003, column 'y': '0.5' is no whole number"),
    "a large label": ("a,y\n1,0\n2,9223372036854775808\n", "'9223372036854775808' does not fit int64"),
    "not UTF-8": (
        b"a,y\n1,caf\xe9\n2,p\n",
        "FILE, row 2: the byte 0xe9 is not UTF-8 (in '1,caf\ufffd'): save",
    ),
    "a NUL byte": (b"a,y\n1,0\n2\0,1\n", "FILE, row 3: it holds a NUL byte"),
    "a lone return": ("a,y\n1,0\n2\r3,1\n", "FILE, row 3: a carriage return stands alone in it"),
    "a huge field": ("a,y\n1,0\n" + 200_000 * "1" + ",1\n", "row 3, column 'a': '" + 40 * "1" + "...' is no finite"),
    "an open quote": ('a,y\n1,0\n"2,1\n3,0\n', "FILE, row 3: a quote in it is never closed: close it, or double it"),
    "empty": ("", "FILE is empty: give a file with rows"),
    "only blank lines": ("\n\r\n\n", "FILE holds nothing but blank lines"),
    "only a header": ("a,y\n", "FILE holds names of columns and no row below"),
    "UTF-16": ("a,y\n1,0\n".encode("utf-16"), "FILE is UTF-16: save it as UTF-8"),
    "a header of bytes": (b"a\xff,y\n1,0\n", "FILE, row 1: the byte 0xff is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_named(error, name):
    text, message = BAD[name]
    assert message in error(text, label="y")


def test_bad_rows_are_left_out_if_asked_for(table, scan, read):
    rows = [
        "a,b,y",
        "1,1,p",
        "x,1,p",
        "2,2,q",
        "3,3",
        b"\xff,1,p",
        "4,,p",
        "5,5,p",
        "",
        '6,"6\n",q',
        "7,7\0,p",
        "8,8,q",
    ]
    text = b"\n".join(row if isinstance(row, bytes) else row.encode() for row in rows)
    bad = []
    numbers, columns = read(scan("csv", table(text), label="y", on_bad="skip"), bad=bad)
    assert columns["x"].tolist() == [[1, 1], [2, 2], [5, 5], [6, 6], [8, 8]]
    assert columns["y"].tolist() == [0, 1, 0, 1, 1]
    # Numbers are those of the rows, so that a bad row moves no other example into another split.
    assert numbers == [0, 2, 6, 8, 10]
    assert [re.search("row ([0-9]+)", text)[1] for text in bad] == ["3", "5", "6", "7", "11"]


def test_quotes_newlines_and_a_byte_order_mark(table, scan, read):
    text = '\ufeff"a",note,y\r\n"1","two\r\nlines, and ""quotes""",p\r\n2,5" disk,"q,r"\r\n'
    data = scan("csv", table(text), label="y", drop=["note"])
    assert data.contents.classes == ("p", "q,r")
    assert read(data)[1]["x"].tolist() == [[1], [2]] and read(data)[1]["y"].tolist() == [0, 1]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(table, end, last, scan, read):
    text = end.join(["a,y", "1,0", "2,1"]) + (end if last else "")
    assert read(scan("csv", table(text), label="y"))[1]["x"].tolist() == [[1], [2]]


def test_other_delimiters(error, table, scan, read):
    assert read(scan("csv", table("a\tb\n1\t2\n", "t.tsv")))[1]["x"].tolist() == [[1, 2]]
    assert read(scan("csv", table("a;b\n1;2\n"), delimiter=";"))[1]["x"].tolist() == [[1, 2]]
    assert read(scan("csv", table("a\tb\n1\t2\n"), delimiter="tab"))[1]["x"].tolist() == [[1, 2]]
    assert "has one column: if ; is between its fields, give --delimiter=';'" in error("a;b\n1;2\n")


def test_with_and_without_a_header(table, scan):
    assert scan("csv", table("1,2\n3,4\n")).contents.units == 2
    assert scan("csv", table("a,b\n3,4\n")).contents.units == 1
    assert scan("csv", table("5.1,setosa\n4.9,setosa\n"), label="1").contents.units == 2
    assert scan("csv", table("2001,2002\n3,4\n"), header="yes").contents.made["columns"] == {"x": ["2001", "2002"]}


def test_several_files_are_one_table(table, scan, read):
    one, two = table("a,y\n1,p\n2,q\n", "1.csv"), table("a,y\n3,o\n", "2.csv")
    data = scan("csv", one, two, label="y")
    numbers, columns = read(data)
    assert numbers == [0, 1, 2] and columns["x"].tolist() == [[1], [2], [3]] and columns["y"].tolist() == [1, 2, 0]
    assert read(data, 1, 3)[1]["x"].tolist() == [[2], [3]]
    with pytest.raises(UsageError, match="has a column 'b' where .*1.csv has 'a': convert them apart"):
        scan("csv", one, table("b,y\n3,o\n", "3.csv"), label="y")
    with pytest.raises(UsageError, match="has 1 columns, and .*1.csv has 2"):
        scan("csv", one, table("a\n3\n", "3.csv"), label="y")


def test_any_range_of_a_long_file_gives_the_same_rows(table, scan, read):
    text = "a,b\n" + "".join(f"{n},{'x' * (n % 7)}\n" for n in range(5000))
    data = scan("csv", table(text), drop=["b"], header="yes")
    for start, stop in [(0, 1), (1023, 1025), (1024, 2048), (4999, 5000), (2000, 4100)]:
        numbers, columns = read(data, start, stop)
        assert numbers == list(range(start, stop)) and columns["x"][:, 0].tolist() == numbers


def rows_of(text, piece, delimiter=","):
    """The rows as they are found in pieces of that many bytes."""
    finder, data = RowEnds(delimiter=delimiter.encode()), text.encode()
    ends = []
    for start in range(0, len(data), piece):
        ends += (finder.feed(data[start : start + piece]) + start).tolist()
    return ends, finder.in_quotes


def test_row_ends_are_those_of_the_csv_module(monkeypatch):
    """Random texts of the characters that matter, in pieces of all sizes, so that any may be a piece's first."""
    random.seed(5)
    checked = 0
    for _ in range(800):
        text = "".join(random.choice('aa,"\n"') for _ in range(random.randrange(1, 25))) + "\n"
        whole, open_at_end = rows_of(text, len(text))
        for piece in (1, 2, 3, 5):
            assert rows_of(text, piece) == (whole, open_at_end), text
        if open_at_end:
            continue
        found = [list(csv.reader(io.StringIO(text[a:b], newline=""))) for a, b in zip([0, *whole], whole)]
        assert [rows[0] for rows in found] == list(csv.reader(io.StringIO(text, newline=""))), text
        assert all(len(rows) == 1 for rows in found), text
        checked += 1
    assert checked > 250


def test_a_row_without_end_is_no_reason_to_read_it_all(error, monkeypatch):
    monkeypatch.setattr(csv_rows, "MAX_ROW_BYTES", 100_000)
    monkeypatch.setattr(csv_rows, "_PIECE_BYTES", 10_000)
    text = 'a,y\n1,0\n"2,1\n' + 50_000 * "3,0\n"
    assert "FILE, row 3: it is longer than 0 MiB: is a quote in it never closed?" in error(text)


def test_plain_and_careful_parsing_agree(table, scan, read):
    """A quote sends a block the careful way; the values are the same to the last bit."""
    random.seed(1)
    texts = ["1e-3", "-0.1", "123456789", "3.4028234e38", "1.17549435e-38", "0.1234567890123456789", "5.", ".5", "+7"]
    rows = [",".join(random.choice(texts) for _ in range(3)) for _ in range(500)]
    plain = table("a,b,c\n" + "\n".join(rows), "plain.csv")
    quoted = table("a,b,c\n" + "\n".join(rows[:-1]) + "\n" + ",".join(f'"{f}"' for f in rows[-1].split(",")), "q.csv")
    one, other = (read(scan("csv", path))[1]["x"] for path in (plain, quoted))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    assert one[0, 0] == np.float32(rows[0].split(",")[0])


@pytest.mark.parametrize("value", ["9007199254740993", "9223372036854775807", "-9223372036854775808"])
def test_whole_numbers_keep_all_digits(table, value, scan, read):
    for text in (f"a,b\n{value},1\n", f"a,b\n{value},1.5\n", f'a,b\n"{value}",1\n'):
        assert read(scan("csv", table(text), columns="a:int64"))[1]["a"].tolist() == [int(value)]
