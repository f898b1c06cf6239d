"""WordPiece: against an implementation in a few lines, and the same vocabulary from every process."""

import hashlib
import os
import pickle
import subprocess
import sys
import unicodedata
from pydoc_data.topics import topics

import numpy as np
import pytest

from tpuloop.data.text.special import NAMES, SpecialTokens
from tpuloop.data.text.wordpiece import WordPiece, read_vocabulary, train_vocabulary
from tpuloop.errors import UsageError

TEXTS = [topics[name] for name in sorted(topics)][:20]


@pytest.fixture(scope="module")
def words():
    return WordPiece.trained(TEXTS, vocab_size=600)


def greedy(text, vocabulary, *, lower_case=True):
    """The longest piece first, over words split as in BERT's tokenization.py; for ASCII and accents."""
    if lower_case:
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in text)
    tokens = []
    for word in spaced.split():
        pieces, begin = [], 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                piece = word[begin:end] if begin == 0 else "##" + word[begin:end]
                if piece in vocabulary:
                    break
            else:
                pieces = ["[UNK]"]
                break
            pieces.append(piece)
            begin = end
        tokens += pieces
    return tokens


def test_by_hand():
    words = WordPiece([*NAMES, "un", "##aff", "##able", "want", "##ed", "!"])
    assert words.encode("UNwanted Unaffable!").tolist() == [1, 5, 6, 7, 10]  # un ##wanted is not to be had.
    assert words.encode("un\twanted\n").tolist() == [5, 8, 9]
    assert words.encode("").tolist() == []
    assert words.encode("").dtype == words.encode("!").dtype == np.int32


def test_equals_an_independent_implementation(words):
    ids = {token: number for number, token in enumerate(words.vocabulary)}
    text = " ".join(topics[name] for name in sorted(topics)[20:40]) + " Déjà vu: naïve ZEBRAS, qqzzxx"
    expected = [ids[token] for token in greedy(text, ids)]
    assert len(expected) > 10_000 and len(set(expected)) > 300
    assert words.encode(text).tolist() == expected


def test_case_is_kept_where_asked():
    vocabulary = [*NAMES, "a", "A", "é", "e"]
    assert WordPiece(vocabulary, lower_case=False).encode("A a é").tolist() == [6, 5, 7]
    assert WordPiece(vocabulary, lower_case=True).encode("A a é").tolist() == [5, 5, 8]


def test_special_tokens_in_a_text_are_text():
    words = WordPiece([*NAMES, "[", "]", "sep", "mask"])
    assert words.encode("[SEP] [MASK]").tolist() == [5, 7, 6, 5, 8, 6]


def test_words_longer_than_200_characters_are_unknown():
    words = WordPiece([*NAMES, "a", "##a"])
    assert words.encode("a" * 200).tolist() == [5] + [6] * 199
    assert words.encode("a" * 201).tolist() == [1]


def test_special_tokens_are_found_wherever_they_are():
    words = WordPiece(["x", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]"])
    assert words.special == SpecialTokens(pad=5, unknown=4, start=3, separator=2, mask=1)
    assert words.encode("x ?").tolist() == [0, 4]


def test_training_by_hand():
    # The characters come first, then those that go on a word, then what pairs make: a ##b, seen 8 times, and ab ##c,
    # seen twice. Of what is seen once nothing is made.
    assert train_vocabulary(["ab ab ab ab", "ab ab abc abc c cb"], vocab_size=100) == [
        *NAMES,
        *["a", "b", "c", "##b", "##c"],
        *["ab", "abc"],
    ]


TRAIN = """
import hashlib, sys
from pydoc_data.topics import topics
from tpuloop.data.text.wordpiece import train_vocabulary
texts = [topics[name] for name in sorted(topics)][:20]
tokens = train_vocabulary(texts, vocab_size=600)
assert not any(name in sys.modules for name in ("tensorflow", "keras"))
print(hashlib.sha256("\\n".join(tokens).encode()).hexdigest())
"""


def test_training_does_not_depend_on_threads_processes_or_order(words):
    # The hash tables of the library differ from process to process: four would agree by luck once in very many times.
    expected = hashlib.sha256("\n".join(words.vocabulary).encode()).hexdigest()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": parallel},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for threads, parallel in (("1", "true"), ("2", "true"), ("7", "true"), ("2", "false"))
    ]
    assert [process.communicate()[0].strip() for process in running] == [expected] * 4
    assert train_vocabulary(TEXTS[::-1], vocab_size=600) == list(words.vocabulary)


def test_a_trained_vocabulary_has_the_size_asked_for_and_knows_its_text(words):
    assert words.vocab_size == 600 == len(set(words.vocabulary))
    assert words.vocabulary[:5] == NAMES
    assert all(words.special.unknown not in words.encode(text) for text in TEXTS)


def test_the_most_frequent_characters_are_kept():
    texts = ["zzz bbb cc", "zz bb cc a"]
    assert train_vocabulary(texts, vocab_size=12, alphabet=2) == [*NAMES, "b", "z", "##b", "##z", "bb", "zz"]
    words = WordPiece.trained(texts, vocab_size=12, alphabet=2)
    assert words.encode("b cc").tolist() == [5, 1]


@pytest.mark.parametrize(
    "texts, size, expected",
    [
        (["ab cd"], 8, "vocab_size=8 is too small: the special tokens and the characters of the text are 11 already"),
        ([], 100, "there is no text to train a vocabulary on"),
        (["  \n"], 100, "there is no text to train a vocabulary on"),
    ],
)
def test_training_that_cannot_be(texts, size, expected):
    with pytest.raises(UsageError, match=expected):
        train_vocabulary(texts, vocab_size=size)


def test_files(words, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in words.vocabulary), encoding="utf-8")
    again = WordPiece.from_file(str(path))
    assert again.vocabulary == words.vocabulary


def test_files_of_windows_and_unusual_characters(tmp_path):
    # U+2028 is a line end to Python, and a token of multilingual vocabularies.
    tokens = [*NAMES, "\u2028", "\u4e2d", "\u00a0x"]
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(tokens).encode() + b"\r\n\r\n")
    assert read_vocabulary(str(path)) == tokens


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", "vocab.txt is empty"),
        (b"[PAD]\n[UNK]\n[CLS]\nx\n", r"vocab.txt lacks \[SEP\], \[MASK\]"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\na\n", "vocab.txt has the token 'a' twice, as its numbers 6 and 8"),
        (b"[PAD]\n[UNK]\n\n[CLS]\n", "vocab.txt, line 3: empty"),
        (b"[PAD]\n[UNK]\n\xe9\n", "vocab.txt, line 3: not UTF-8"),
    ],
)
def test_files_that_are_no_vocabulary(tmp_path, data, expected):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=expected) as error:
        WordPiece.from_file(str(path))
    assert "\n" not in str(error.value)


def test_pickled(words):
    again = pickle.loads(pickle.dumps(WordPiece(words.vocabulary, lower_case=False)))
    assert again.vocabulary == words.vocabulary and again.lower_case is False
    assert again.encode("The").tolist() != words.encode("The").tolist()


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in ("models", "trainers", "normalizers", "pre_tokenizers"):
        monkeypatch.delitem(sys.modules, f"tokenizers.{name}", raising=False)
    for function in (lambda: WordPiece([*NAMES, "a"]), lambda: train_vocabulary(["a"], vocab_size=10)):
        with pytest.raises(UsageError, match=r"install it with pip install 'tpuloop\[text\]'") as error:
            function()
        assert "\n" not in str(error.value)


def test_special_tokens_need_ids_of_their_own():
    with pytest.raises(UsageError, match=r"five ids of their own from 0 up, not \(0, 1, 2, 3, 3\)"):
        SpecialTokens(mask=3)
