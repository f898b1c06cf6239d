"""WordPiece: text to token ids by a given or a trained vocabulary.

The work is done by the library `tokenizers`, which the extra `text` installs. Imports no TensorFlow, so that worker
processes start quickly.
"""

import collections
import importlib
from typing import Any, Counter, Iterable, Iterator, List, Sequence, Set, Tuple

import numpy as np

from tpuloop.data.records.files import read_file
from tpuloop.data.text.special import NAMES, SpecialTokens
from tpuloop.errors import UsageError

_LONGEST_WORD = 200  # In characters; longer ones are [UNK], as in the original release of BERT.
_CONTINUES = "##"


class WordPiece:
    """Splits text into words and these, greedily, into the longest pieces that a vocabulary has (arXiv:1810.04805).

    Words are cleaned and told apart as in the original release of BERT: at spaces, punctuation and Chinese characters.
    Special tokens written out in a text are text: nothing in it can pass for a [SEP] of ours. Can be pickled.

    Args:
      vocabulary: the tokens in the order of their ids, the special tokens among them. `##` marks pieces that continue
        a word.
      lower_case: whether text is lower-cased and stripped of accents first; must be as the vocabulary was made.
      what: the vocabulary's name in messages.

    Raises:
      UsageError: where `tokenizers` is not installed, a special token is missing or a token is there twice.
    """

    def __init__(self, vocabulary: Sequence[str], *, lower_case: bool = True, what: str = "the vocabulary"):
        tokens = tuple(vocabulary)
        ids = {token: number for number, token in enumerate(tokens)}
        if len(ids) != len(tokens):
            twice = next(token for number, token in enumerate(tokens) if ids[token] != number)
            lines = [number + 1 for number, token in enumerate(tokens) if token == twice]
            raise UsageError(f"{what} has the token {twice!r} twice, as its numbers {lines[0]} and {lines[1]}")
        self._special = SpecialTokens.of(tokens, what=what)
        self._vocabulary = tokens
        self._lower_case = lower_case
        models = _library("models")
        model = models.WordPiece(
            vocab=ids,
            unk_token="[UNK]",
            max_input_chars_per_word=_LONGEST_WORD,
            continuing_subword_prefix=_CONTINUES,
        )
        self._tokenizer = _tokenizer(model, lower_case=lower_case)

    @classmethod
    def from_file(cls, path: str, *, lower_case: bool = True) -> "WordPiece":
        """By a vocab.txt: UTF-8, a token a line, whose id is the number of the lines before it.

        Raises:
          UsageError: naming the file and what is wrong with it.
          OSError: where it cannot be read.
        """
        return cls(read_vocabulary(path), lower_case=lower_case, what=path)

    @classmethod
    def trained(
        cls, texts: Iterable[str], *, vocab_size: int, lower_case: bool = True, alphabet: int = 1000
    ) -> "WordPiece":
        """By a vocabulary made from texts; see `train_vocabulary`."""
        tokens = train_vocabulary(texts, vocab_size=vocab_size, lower_case=lower_case, alphabet=alphabet)
        return cls(tokens, lower_case=lower_case)

    @property
    def vocabulary(self) -> Tuple[str, ...]:
        """The tokens; the n-th has the id n."""
        return self._vocabulary

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary)

    @property
    def lower_case(self) -> bool:
        return self._lower_case

    @property
    def special(self) -> SpecialTokens:
        return self._special

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text's tokens: int32 of shape [tokens], without special tokens other than [UNK]."""
        return np.asarray(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    def __reduce__(self) -> Any:
        return _unpickled, (self._vocabulary, self._lower_case)


def _unpickled(vocabulary: Tuple[str, ...], lower_case: bool) -> WordPiece:
    return WordPiece(vocabulary, lower_case=lower_case)


def read_vocabulary(path: str) -> List[str]:
    """The tokens of a vocab.txt.

    Raises:
      UsageError: for a file that is empty or not UTF-8, or an empty line in its midst.
      OSError: where it cannot be read.
    """
    data = read_file(path)
    try:
        # Not splitlines: U+2028 and others that it takes for line ends are tokens of published vocabularies.
        tokens = [line.rstrip("\r") for line in data.decode("utf-8-sig").rstrip("\r\n").split("\n")]
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not UTF-8; a vocabulary is a text file with a token a line") from error
    if tokens == [""]:
        raise UsageError(f"{path} is empty: a vocabulary has a token a line")
    if "" in tokens:
        raise UsageError(
            f"{path}, line {tokens.index('') + 1}: empty; a vocabulary has a token a line, in order of ids"
        )
    return tokens


def train_vocabulary(
    texts: Iterable[str], *, vocab_size: int, lower_case: bool = True, alphabet: int = 1000
) -> List[str]:
    """A vocabulary made from texts: the special tokens, the characters, then the most frequent pieces of words.

    It depends on the texts alone, not on threads, processes or the texts' order. Reads the texts twice, holding only
    one at a time and the distinct words; a megabyte takes about a second.

    Args:
      texts: can be gone through twice, such as a list; not an iterator.
      vocab_size: tokens in all. There are fewer where the texts have fewer pieces to offer.
      lower_case: as for `WordPiece`.
      alphabet: how many characters to keep at most, the most frequent ones. Others become [UNK].

    Raises:
      UsageError: where `vocab_size` does not hold the special tokens and the characters, or there is no text.
    """
    trainers = _library("trainers")
    raw: Counter[str] = collections.Counter()
    distinct: Set[str] = set()
    for text in texts:
        raw.update(text)
        distinct.update(text.replace("\n", " ").split(" "))
    # The library numbers the characters within words in the order of a hash table, which differs from process to
    # process, and breaks ties between pieces by those numbers. So a first pass, over each word once, only finds the
    # characters; the second is given them in an order of ours.
    found = _tokens(iter(distinct), trainers.WordPieceTrainer(vocab_size=1, show_progress=False), lower_case)
    if not found:
        raise UsageError("there is no text to train a vocabulary on")
    counts: Counter[str] = collections.Counter()
    normalizer = _normalizer(lower_case)
    for char, count in raw.items():
        counts.update(dict.fromkeys(normalizer.normalize_str(char), count))
    most_frequent = sorted((char for char in found if len(char) == 1), key=lambda char: (-counts[char], char))
    kept = set(most_frequent[:alphabet])
    characters = sorted((token for token in found if token[-1] in kept), key=lambda token: (len(token), token))
    fixed = [*NAMES, *characters]
    if vocab_size < len(fixed):
        raise UsageError(
            f"vocab_size={vocab_size} is too small: the special tokens and the characters of the text are "
            f"{len(fixed)} already; give more, or a smaller alphabet"
        )
    # As "special tokens" of the trainer they keep their numbers, which characters do not; to the vocabulary it is all
    # one.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=fixed,
        limit_alphabet=0,
        min_frequency=2,  # There is nothing to learn of a piece seen once.
        continuing_subword_prefix=_CONTINUES,
        show_progress=False,
    )
    return _tokens(iter(texts), trainer, lower_case)


def _tokens(texts: Iterator[str], trainer: Any, lower_case: bool) -> List[str]:
    """The vocabulary that a trainer of the library makes, in the order of ids."""
    tokenizer = _tokenizer(_library("models").WordPiece(unk_token="[UNK]"), lower_case=lower_case)
    tokenizer.train_from_iterator(texts, trainer)
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _tokenizer(model: Any, *, lower_case: bool) -> Any:
    tokenizer = _library("").Tokenizer(model)
    tokenizer.normalizer = _normalizer(lower_case)
    tokenizer.pre_tokenizer = _library("pre_tokenizers").BertPreTokenizer()
    return tokenizer


def _normalizer(lower_case: bool) -> Any:
    return _library("normalizers").BertNormalizer(lowercase=lower_case)  # Strips accents where it lower-cases.


def _library(module: str) -> Any:
    """A module of `tokenizers`."""
    try:
        return importlib.import_module(f"tokenizers.{module}" if module else "tokenizers")
    except ImportError as error:
        raise UsageError(
            f"WordPiece needs the package tokenizers ({error}): install it with pip install 'tpuloop[text]'"
        ) from error
