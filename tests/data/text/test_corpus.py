"""Corpora: every document in one block, whatever the blocks."""

import json

import pytest

from tpuloop.data.text import corpus as corpora
from tpuloop.data.text.corpus import Format, corpus_of
from tpuloop.errors import UsageError


@pytest.fixture
def files(tmp_path):
    """Three files of one format, and their documents in order."""

    def write(documents):
        texts = [f"document {number} " + "word " * (number % 7) for number in range(60)]
        bounds = [0, 10, 11, 60]
        paths = []
        for start, stop in zip(bounds, bounds[1:]):
            part = texts[start:stop]
            if documents == corpora.JSON_LINES:
                data = "\n".join(json.dumps({"text": text, "label": len(text)}) for text in part)
            else:
                data = ("\n\n" if documents == corpora.BLANK_LINES else "\n").join(part)
            paths.append(str(tmp_path / f"{start}"))
            (tmp_path / f"{start}").write_text(data)
        return paths, texts

    return write


@pytest.mark.parametrize("documents", [corpora.JSON_LINES, corpora.LINES, corpora.BLANK_LINES])
@pytest.mark.parametrize("block_bytes", [1, 50, 300, 10_000])
def test_blocks_hold_every_document_once(files, documents, block_bytes):
    paths, texts = files(documents)
    corpus = corpus_of(paths, Format(documents), block_bytes=block_bytes)
    found = [document.text for block in range(corpus.blocks) for document in corpus.documents(block)]
    assert found == texts
    everything = corpus.all_documents()
    assert [document.text for document in everything] == [document.text for document in everything] == texts
    assert corpus.blocks >= sum(corpus.sizes) / block_bytes


def test_a_part_of_it_is_spread_over_the_files(files):
    paths, texts = files(corpora.LINES)
    corpus = corpus_of(paths, Format(corpora.LINES), block_bytes=50)
    part = [document.text for document in corpus.all_documents(most_bytes=sum(corpus.sizes) // 4)]
    assert 8 <= len(part) <= 25 and part == sorted(part, key=texts.index)
    assert texts.index(part[-1]) > 50
    assert [document.text for document in corpus.all_documents(most_bytes=10**6)] == texts


def test_blocks_of_much_text_are_larger(files, monkeypatch):
    paths, _ = files(corpora.LINES)
    monkeypatch.setattr(corpora, "_MOST_BLOCKS", 10)
    assert 10 <= corpus_of(paths, Format(corpora.LINES), block_bytes=1).blocks <= 13


def test_files_that_cannot_be_read(tmp_path):
    for path, expected in ((tmp_path / "none", "none: there is no such file"), (tmp_path, "cannot be read: Is a dir")):
        with pytest.raises(UsageError, match=expected):
            corpus_of([str(path)], Format(corpora.LINES))
