"""Labelled docstrings, and what guesses by frequency reach."""

import numpy as np
import pytest

from tpuloop.data.sets import pydoc as pydoc_module
from tpuloop.data.sets.docstrings import docstrings
from tpuloop.data.sets.pydoc import pydoc
from tpuloop.data.text import docstrings_text
from tpuloop.data.text.docstrings_text import PACKAGES, labelled_docstrings
from tpuloop.data.text.wordpiece import WordPiece
from tpuloop.errors import UsageError


@pytest.fixture(scope="module")
def data():
    return docstrings(sequence_length=32)


@pytest.fixture(scope="module")
def labelled():
    return labelled_docstrings()


def all_of(source):
    (batch,) = source.one_pass(batch_size=source.size)
    x, y = batch[0] if isinstance(batch[0], tuple) else batch
    return {name: feature.numpy() for name, feature in x.items()}, y.numpy()


def test_docstrings_are_what_the_files_say_and_none_comes_twice(labelled):
    texts, labels = labelled
    assert len(texts) == len(set(texts)) == len(labels) > 1500
    assert set(labels) == set(range(8))
    assert min(len(text.split()) for text in texts) >= 5
    # Of the packages as they are imported, not of their source.
    for package, text in (("asyncio", __import__("asyncio").gather.__doc__), ("email", __import__("email").__doc__)):
        assert labels[texts.index(" ".join(text.split()))] == PACKAGES.index(package)


def test_a_fifth_is_held_out_and_nothing_of_it_is_trained_on(data, labelled):
    (train, _), (held_out, _) = all_of(data.train), all_of(data.evaluation)
    sequences = [{row.tobytes() for row in part["input_ids"]} for part in (train, held_out)]
    counts = [len(part["input_ids"]) for part in (train, held_out)]
    assert sum(counts) == len(labelled[0])
    assert 0.15 < counts[1] / sum(counts) < 0.25
    assert len(sequences[0] & sequences[1]) < 0.02 * counts[1]  # Some differ only behind their 32nd token.


def test_a_guess_is_the_most_frequent_package_of_what_is_trained_on(data):
    (_, train), (_, held_out) = all_of(data.train), all_of(data.evaluation)
    most_frequent = np.bincount(train).argmax()
    assert data.baseline == {"accuracy": pytest.approx(np.mean(held_out == most_frequent))}


def test_the_vocabulary_is_that_of_the_reference(data):
    assert data.model_arguments == {
        "vocab_size": pydoc().model_arguments["vocab_size"],
        "sequence_length": 32,
        "num_classes": 8,
        "task": "classification",
    }


def test_a_library_without_its_files_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(docstrings_text.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(UsageError, match=f"has no files of 'asyncio' in {tmp_path}"):
        labelled_docstrings()


def test_the_unigram_baseline_by_hand():
    words = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"])
    train, held_out = np.array([[2, 5, 5, 6, 3, 0]]), np.array([[2, 5, 6, 7, 7, 0]])
    made = pydoc_module._unigram_baseline(train, held_out, words=words)
    # With one more of each of 8 tokens: a 3, b 2, c 1 of 11. Held out are a, b and twice c.
    expected = -(np.log(3 / 11) + np.log(2 / 11) + 2 * np.log(1 / 11)) / 4
    assert made == {"loss": pytest.approx(expected), "masked_accuracy": 0.25}
