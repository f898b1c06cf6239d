"""Text to records: what is in them, the same from any number of workers and after a kill, and what is refused."""

import io
import itertools
import json
import pickle
import subprocess
import sys
from pydoc_data.topics import topics

import numpy as np
import pytest

from tpuloop.data.convert.conversion import Conversion, Stopped
from tpuloop.data.convert.conversion import Layout as Files
from tpuloop.data.convert.kinds import all_kinds, kind_of
from tpuloop.data.converted import converted_source
from tpuloop.data.records.framing import read_frames
from tpuloop.data.records.manifest import Manifest
from tpuloop.data.text import corpus as corpora
from tpuloop.data.text.masked_source import masked_source
from tpuloop.data.text.masking import Masking
from tpuloop.data.text.special import NAMES
from tpuloop.data.text.wordpiece import WordPiece
from tpuloop.errors import UsageError

TOKENS = [*NAMES, "one", "two", "three", "four", "five", ".", "##s"]
TEXTS = [topics[name] for name in sorted(topics, key=lambda name: len(topics[name]))][:40]


@pytest.fixture
def vocab(tmp_path):
    path = tmp_path / "given.txt"
    path.write_text("".join(f"{token}\n" for token in TOKENS))
    return str(path)


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)

    return write


def scan(*paths, on_bad_record="fail", seed=0, **options):
    kinds = all_kinds()
    kind = kind_of(paths, None, kinds)
    unknown = set(options) - set(kind.flags)
    assert not unknown, unknown
    given = {name: options.get(name) for name in kind.flags}
    # As workers get it.
    return pickle.loads(
        pickle.dumps(kind.scan(paths, {**given, "on_bad_record": on_bad_record, "seed": seed}, workers=1))
    )


def read(data, start=0, stop=None, bad=None):
    """(numbers, columns) of some units."""

    def on_bad(wrong):
        if bad is None:
            raise UsageError(wrong)
        bad.append(wrong)

    stop = data.contents.units if stop is None else stop
    batches = list(data.read(start, stop, on_bad=on_bad))
    assert sum(batch.units for batch in batches) == stop - start
    filled = [batch for batch in batches if len(batch.numbers)]
    names = [feature.name for feature in data.contents.features]
    assert all(list(batch.columns) == names for batch in filled)
    columns = {name: np.concatenate([batch.columns[name] for batch in filled]) for name in names} if filled else {}
    for feature in data.contents.features:
        if filled:
            assert columns[feature.name].dtype == feature.dtype
            assert columns[feature.name].shape[1:] == feature.shape
    return [int(number) for batch in filled for number in batch.numbers], columns


def jsonl(objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


def test_labelled_texts(write, vocab):
    path = write(
        "a.jsonl", jsonl([{"body": "Two ones.", "y": "no"}, {"body": "", "y": "yes"}, {"body": "five " * 9, "y": "no"}])
    )
    data = scan(path, vocab=vocab, label="y", text_field="body", sequence_length=6)
    contents = data.contents
    assert [(f.name, f.dtype, f.shape) for f in contents.features] == [
        ("input_ids", "int32", (6,)),
        ("input_mask", "int32", (6,)),
        ("segment_ids", "int32", (6,)),
        ("y", "int64", ()),
    ]
    assert (contents.label, contents.classes, contents.kind) == ("y", ("no", "yes"), "packed")
    numbers, columns = read(data)
    assert numbers == [0, 1, 2]
    assert columns["input_ids"].tolist() == [[2, 6, 5, 11, 10, 3], [2, 3, 0, 0, 0, 0], [2, 9, 9, 9, 9, 3]]
    assert columns["input_mask"].tolist() == [[1] * 6, [1, 1, 0, 0, 0, 0], [1] * 6]
    assert columns["y"].tolist() == [0, 1, 0]


def test_labels_that_are_numbers_stay(write, vocab):
    data = scan(
        write("a.jsonl", jsonl([{"text": "one", "label": 7}, {"text": "two", "label": -1}])), vocab=vocab, label="label"
    )
    assert data.contents.classes is None
    assert read(data)[1]["y"].tolist() == [7, -1]
    assert data.contents.features[0].shape == (128,)


def test_packed_text_belongs_to_the_document_it_begins_in(write, vocab):
    path = write("a.txt", "one two three\n\nfour\nfive\n\n\none one one one one one one one\n")
    data = scan(path, vocab=vocab, sequence_length=5)
    numbers, columns = read(data)
    assert columns["input_ids"].tolist() == [[2, 5, 6, 7, 3], [2, 8, 9, 3, 5], [2, 5, 5, 5, 5], [2, 5, 5, 5, 3]]
    assert numbers == [0, 1, 2, 2]
    assert data.contents.label is None and len(columns) == 3
    # A line is a document where that is asked for.
    _, columns = read(scan(path, vocab=vocab, sequence_length=5, documents="lines", pad=True))
    assert columns["input_ids"].tolist() == [[2, 5, 6, 7, 3], [2, 8, 3, 0, 0], [2, 9, 3, 0, 0], [2, 5, 5, 5, 3]]


@pytest.fixture
def reference(write):
    """Text of some size in both formats."""
    paragraphs = [[" ".join(part.split()) for part in text.split("\n\n")] for text in TEXTS]
    return {
        "text": write("r.txt", "\n\n".join("\n".join(parts) for parts in paragraphs)),
        "jsonl": write("r.jsonl", jsonl({"text": text, "label": text[0]} for text in TEXTS)),
    }


@pytest.mark.parametrize(
    "kind, options",
    [
        ("text", {"pack": True, "masking": "static"}),
        ("text", {"pairs": True}),
        ("text", {"pairs": True, "masking": "static", "max_predictions": 4, "mask_rate": 0.3}),
        ("jsonl", {"label": "label"}),
        ("jsonl", {"pad": True}),
    ],
)
def test_what_a_unit_gives_does_not_depend_on_the_range(reference, monkeypatch, kind, options):
    monkeypatch.setattr(corpora.corpus_of, "__kwdefaults__", {"block_bytes": 3000})
    data = scan(reference[kind], vocab_size=500, sequence_length=32, **options)
    assert data.contents.units > 8
    numbers, columns = read(data)
    if kind == "jsonl":
        assert len(numbers) == 40
    alone = [read(data, unit, unit + 1) for unit in range(data.contents.units)]
    assert [number for part, _ in alone for number in part] == numbers == sorted(numbers)
    for name, values in columns.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for _, part in alone if part]), values)
    ends = (columns["input_ids"] == 3).sum(axis=1)
    if options.get("pairs"):
        assert set(ends) == {2} and 0.4 < columns["next_sentence_labels"].mean() < 0.7
    if options.get("masking"):
        made = data.contents.made["text"]
        masking = Masking.of_converted(made, rate=made["mask_rate"], max_predictions=made["max_predictions"])
        expected = np.minimum(masking.predictions(32)[columns["input_mask"].sum(axis=1)], 32)
        assert (columns["masked_lm_weights"].sum(axis=1) == expected).mean() > 0.98
        other = read(scan(reference[kind], vocab_size=500, sequence_length=32, seed=1, **options))[1]
        places = [found["masked_lm_positions"][:100] for found in (columns, other)]
        assert (places[0] != places[1]).any(axis=1).mean() > 0.9


def test_a_block_of_one_document_pairs_with_another_block(write, vocab, monkeypatch):
    monkeypatch.setattr(corpora.corpus_of, "__kwdefaults__", {"block_bytes": 30})
    path = write("a.txt", "\n\n".join(["one one one.\none one."] + ["two two two.\ntwo two two."] * 3))
    data = scan(path, vocab=vocab, sequence_length=16, pairs=True)
    assert data.contents.units > 2
    numbers, columns = read(data)
    assert len(set(numbers)) == 4
    first = columns["input_ids"][0]
    assert set(first) <= {0, 2, 3, 5, 6, 10}
    with pytest.raises(UsageError, match="sentence pairs need two documents"):
        read(scan(write("b.txt", "one.\ntwo.\n"), vocab=vocab, sequence_length=16, pairs=True))


def convert(data, folder, *, count=1, shards=4, stop=lambda: False, held_out=0.2):
    job = Conversion(
        data=data,
        folder=str(folder),
        layout=Files(shards=shards, held_out=held_out),
        options={"format": "text"},
        count=count,
        stream=io.StringIO(),
        stop=stop,
    )
    return job.finished() or job.run()


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_the_same_from_any_number_of_workers_and_after_a_stop(reference, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora.corpus_of, "__kwdefaults__", {"block_bytes": 8000})
    options = {"vocab_size": 500, "sequence_length": 32, "masking": "static"}
    data = scan(reference["text"], **options)
    convert(data, tmp_path / "one")
    expected = contents_of(tmp_path / "one")
    calls = itertools.count()
    with pytest.raises(Stopped):
        convert(data, tmp_path / "two", stop=lambda: next(calls) >= 2)
    assert "manifest.json" not in contents_of(tmp_path / "two")
    convert(scan(reference["text"], **options), tmp_path / "two", count=2)
    assert contents_of(tmp_path / "two") == expected
    assert sorted(expected) == sorted(
        ["manifest.json", "vocab.txt", *(f"{s}-0000{i}-of-00004.tfrecord" for s in ("train", "test") for i in range(4))]
    )

    # What the manifest says is enough to read and mask it, and the vocabulary that was made is beside it.
    made = Manifest.load(str(tmp_path / "one")).made["text"]
    words = WordPiece.from_file(str(tmp_path / "one" / made["vocabulary"]), lower_case=made["lower_case"])
    assert words.vocab_size == made["vocab_size"] == 500 and list(words.special.ids) == made["special_ids"]
    assert (made["sequence_length"], made["layout"], made["masking"], made["max_predictions"]) == (
        32,
        "pack",
        "static",
        5,
    )
    total = 0
    for name, stored in expected.items():
        if name.endswith(".tfrecord"):
            for _, record in read_frames(io.BytesIO(stored)):
                total += len(record)
    assert total == sum(len(values.tobytes()) for values in read(data)[1].values())


def test_wrong_lines_are_told_or_left_out(write, vocab):
    good = {"text": "one two", "label": "a"}
    path = write("a.jsonl", jsonl([good, {"text": 5}, good, {"text": "two", "label": 3}, good]))
    with pytest.raises(UsageError, match="a.jsonl, line 2: field 'text' is a number, not a string"):
        scan(path, vocab=vocab, label="label")
    bad = []
    _, columns = read(scan(path, vocab=vocab, label="label", on_bad_record="skip"), bad=bad)
    assert len(columns["y"]) == 3
    assert [text.partition("a.jsonl, ")[2] for text in bad] == [
        "line 2: field 'text' is a number, not a string",
        "line 4: the label 3 is not a string, as the first one is",
    ]
    numbers = write("b.jsonl", jsonl([{"text": "one", "label": 1}, {"text": "one", "label": "a"}]))
    with pytest.raises(UsageError, match="b.jsonl, line 2: the label 'a' is not a whole number of 64 bits"):
        read(scan(numbers, vocab=vocab, label="label"))


def test_what_was_converted_is_read_and_masked_anew(reference, tmp_path):
    convert(scan(reference["text"], vocab_size=500, sequence_length=32), tmp_path / "out", shards=1, held_out=0)
    manifest = Manifest.load(str(tmp_path / "out"))
    masking = Masking.of_converted(manifest.made["text"])
    assert masking == Masking(vocab_size=500, max_predictions=5)
    plain = converted_source(str(tmp_path / "out"), shuffle=False)
    source = masked_source(plain, masking=masking)
    (before,) = plain.one_pass(batch_size=64).take(1)
    (after,) = source.one_pass(batch_size=64).take(1)
    ids = after["input_ids"].numpy()
    rows, places = np.nonzero(after["masked_lm_weights"].numpy())
    columns = after["masked_lm_positions"].numpy()[rows, places]
    assert (ids != before["input_ids"].numpy()).any()
    ids[rows, columns] = after["masked_lm_ids"].numpy()[rows, places]
    np.testing.assert_array_equal(ids, before["input_ids"])


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "text needs a vocabulary: give --vocab=FILE, or --vocab_size=8000 to have one made of it"),
        ({"vocab": True, "vocab_size": 99}, "--vocab and --vocab_size exclude each other"),
        ({"vocab": "none.txt"}, "--vocab=none.txt cannot be read: No such file"),
        ({"vocab_size": 6}, "vocab_size=6 is too small"),
        ({"vocab": True, "pack": True, "pairs": True}, "--pack and --pairs exclude each other"),
        ({"vocab": True, "pack": True, "label": "label"}, "--pack keeps no labels: leave it or --label out"),
        ({"vocab": True, "masking": "static", "label": "label"}, "--masking=static is for text without labels"),
        ({"vocab": True, "max_predictions": 3}, "--max_predictions has no effect without --masking=static"),
        ({"vocab": True, "mask_rate": 0.3, "masking": "none"}, "--mask_rate has no effect without --masking=static"),
        (
            {"vocab": True, "masking": "static", "max_predictions": 99, "sequence_length": 16},
            "max_predictions=99 is more",
        ),
        ({"vocab": True, "sequence_length": 2}, "sequence_length=2: give 5"),
        (
            {"vocab": True, "text_field": "body"},
            "line 1: there is no field 'body'; the fields are 'text', 'label': name it",
        ),
    ],
)
def test_what_is_refused(write, vocab, options, expected):
    path = write("a.jsonl", jsonl([{"text": "one two", "label": 0}]))
    options = {name: vocab if value is True and name == "vocab" else value for name, value in options.items()}
    with pytest.raises(UsageError, match=expected) as error:
        read(scan(path, **options))
    assert "\n" not in str(error.value)


def test_the_command(reference, tmp_path):
    command = [sys.executable, "-m", "tpuloop", "data", "convert", reference["text"], f"--out={tmp_path / 'out'}"]
    for expected in ("wrote ", "already converted: "):
        done = subprocess.run([*command, "--vocab_size=400", "--nolower_case"], capture_output=True, encoding="utf-8")
        assert done.returncode == 0 and done.stdout.startswith(expected), done.stderr
    assert "The" in (tmp_path / "out" / "vocab.txt").read_text().split("\n")
