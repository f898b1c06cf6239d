"""Text: plain or in JSON lines, to sequences of tokens for language models, or of labelled texts."""

import hashlib
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.convert.input_files import fingerprint
from tpuloop.data.convert.input_kind import Batch, Contents, Input, InputKind, OnBad
from tpuloop.data.records.manifest import PACKED, Feature
from tpuloop.data.text import corpus as corpora
from tpuloop.data.text.corpus import Corpus, Format, corpus_of
from tpuloop.data.text.documents import refuse
from tpuloop.data.text.examples import PACK, PAD, PAIRS, TextExamples, classes_of
from tpuloop.data.text.masking import Masking, default_predictions
from tpuloop.data.text.sequences import Layout
from tpuloop.data.text.wordpiece import WordPiece, train_vocabulary
from tpuloop.errors import UsageError

VOCABULARY_FILE = "vocab.txt"

_TRAINED_ON = 16 * 2**20  # Bytes of text; a larger part changes few tokens, and takes a second a megabyte.
_GROWTH = 4  # A megabyte of text makes some 4 of records, and as much work: more shards than of other input.
_STATIC, _NONE = "static", "none"
_FLAGS = (
    "vocab",
    "vocab_size",
    "lower_case",
    "sequence_length",
    "pack",
    "pad",
    "pairs",
    "masking",
    "mask_rate",
    "max_predictions",
)


class TextKind(InputKind):
    """Plain text."""

    name = "text"
    summary = "plain text: a document a line, or documents between blank lines"
    flags = ("documents", *_FLAGS)

    def recognises(self, path: str) -> bool:
        """By its ending."""
        return path.lower().endswith((".txt", ".text"))

    def define_flags(self) -> None:
        """How text is read, and what becomes of it; of JSON lines too."""
        from absl import flags

        flags.DEFINE_enum(
            "documents",
            None,
            [corpora.BLANK_LINES, corpora.LINES],
            "Text: what separates documents. Default: blank_lines, with a sentence a line, as in BERT's files.",
        )
        flags.DEFINE_string("vocab", None, "Text: a WordPiece vocabulary, BERT's vocab.txt.")
        flags.DEFINE_integer("vocab_size", None, "Text: or tokens of one to be made of the text.", lower_bound=1)
        flags.DEFINE_bool(
            "lower_case", None, "Text: whether it is lower-cased, as the vocabulary must be. Default: yes."
        )
        flags.DEFINE_integer("sequence_length", None, "Text: tokens of an example. Default: 128.", lower_bound=1)
        flags.DEFINE_bool("pack", None, "Text: documents run on through full sequences. The default without --label.")
        flags.DEFINE_bool("pad", None, "Text: a document an example, cut off or padded. The default with --label.")
        flags.DEFINE_bool("pairs", None, "Text: pairs of sentences for next-sentence prediction, as in BERT.")
        flags.DEFINE_enum(
            "masking",
            None,
            [_STATIC, _NONE],
            "Text: static hides tokens for masked language models once for all; none, the default, leaves it to the "
            "reader, who can hide others in every epoch.",
        )
        flags.DEFINE_float("mask_rate", None, "Text: the share of tokens that static masking hides. Default: 0.15.")
        flags.DEFINE_integer(
            "max_predictions", None, "Text: hidden tokens of an example at most. Default: as the rate.", lower_bound=1
        )

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Makes or reads the vocabulary."""
        del workers
        format = Format(options["documents"] or corpora.BLANK_LINES)
        return _scanned(corpus_of(paths, format), options)


class JsonLinesKind(InputKind):
    """JSON lines."""

    name = "jsonl"
    summary = "JSON lines: an object a line with a text, and perhaps a label"
    flags = ("label", "text_field", *_FLAGS)

    def recognises(self, path: str) -> bool:
        """By its ending."""
        return path.lower().endswith((".jsonl", ".ndjson"))

    def define_flags(self) -> None:
        """How objects are read."""
        from absl import flags

        flags.DEFINE_string("text_field", None, "JSON lines: the field that holds the text. Default: text.")

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Makes or reads the vocabulary, and finds the values of a label that is text."""
        del workers
        format = Format(corpora.JSON_LINES, options["text_field"] or "text", options["label"])
        return _scanned(corpus_of(paths, format), options)


class TextInput(Input):
    """Scanned text. A unit is a block of documents, see `text.corpus`.

    Args:
      examples: what is made of it.
      classes: the names of the label's classes, if it has names.
      source: the files' sizes and times.
    """

    def __init__(self, *, examples: TextExamples, classes: Optional[Tuple[str, ...]], source: Mapping[str, Any]):
        self._examples = examples
        self._classes = classes
        self._source = source

    @property
    def contents(self) -> Contents:
        """Packed features with BERT's names, and `y` for a label."""
        examples, words = self._examples, self._examples.words
        vocabulary = "".join(f"{token}\n" for token in words.vocabulary).encode("utf-8")
        made: Dict[str, Any] = {
            "vocabulary": VOCABULARY_FILE,
            "vocab_size": words.vocab_size,
            "special_ids": list(words.special.ids),
            "lower_case": words.lower_case,
            "sequence_length": examples.layout.sequence_length,
            "layout": examples.how,
            "masking": _NONE,
        }
        if examples.masking is not None:
            made["masking"] = _STATIC
            made["mask_rate"] = examples.masking.rate
            made["max_predictions"] = examples.masking.max_predictions
        return Contents(
            features=tuple(Feature(name, dtype, shape) for name, (dtype, shape) in examples.features().items()),
            kind=PACKED,
            units=examples.corpus.blocks,
            bytes=_GROWTH * sum(examples.corpus.sizes),
            unit="blocks of text",
            label="y" if examples.labelled else None,
            classes=self._classes,
            made={"text": made},
            source={**self._source, "vocabulary": hashlib.sha256(vocabulary).hexdigest()},
            files={VOCABULARY_FILE: vocabulary},
        )

    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """The examples of some blocks; the number of each is its document's."""
        for block in range(start, stop):
            for numbers, features in self._examples.of_block(block, on_bad=on_bad):
                yield Batch(numbers=numbers, columns=features)
            yield Batch(numbers=np.empty(0, np.int64), units=1)


def _scanned(corpus: Corpus, options: Mapping[str, Any]) -> TextInput:
    how = _how(options, labelled=corpus.format.label_field is not None)
    _check_flags(options, labelled=corpus.format.label_field is not None)
    # What is wrong is told when it is converted, unless nothing may be.
    on_bad = refuse if options["on_bad_record"] == "fail" else _passed_over
    words = _words(corpus, options, on_bad)
    length = 128 if options["sequence_length"] is None else options["sequence_length"]
    classes = None
    if corpus.format.label_field is not None:
        classes = classes_of(corpus.all_documents(on_bad=on_bad))
    examples = TextExamples(
        corpus=corpus,
        words=words,
        layout=Layout(length, words.special),
        how=how,
        masking=_masking(options, words, length),
        seed=options["seed"],
        classes=None if classes is None else {name: number for number, name in enumerate(classes)},
    )
    return TextInput(examples=examples, classes=classes, source=fingerprint(corpus.paths))


def _how(options: Mapping[str, Any], *, labelled: bool) -> str:
    given = [how for how in (PACK, PAD, PAIRS) if options[how]]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other: give one of them")
    if labelled and given not in ([], [PAD]):
        raise UsageError(f"--{given[0]} keeps no labels: leave it or --label out")
    return given[0] if given else PAD if labelled else PACK


def _check_flags(options: Mapping[str, Any], *, labelled: bool) -> None:
    if options["masking"] == _STATIC:
        if labelled:
            raise UsageError("--masking=static is for text without labels: leave it or --label out")
        return
    for name in ("mask_rate", "max_predictions"):
        if options[name] is not None:
            raise UsageError(f"--{name} has no effect without --masking=static")


def _masking(options: Mapping[str, Any], words: WordPiece, length: int) -> Optional[Masking]:
    if options["masking"] != _STATIC:
        return None
    rate = 0.15 if options["mask_rate"] is None else options["mask_rate"]
    most = default_predictions(length, rate=rate) if options["max_predictions"] is None else options["max_predictions"]
    masking = Masking(vocab_size=words.vocab_size, max_predictions=most, rate=rate, special=words.special)
    masking.predictions(length)  # Says what does not fit now, not in a worker.
    return masking


def _words(corpus: Corpus, options: Mapping[str, Any], on_bad: OnBad) -> WordPiece:
    path, size = options["vocab"], options["vocab_size"]
    lower_case = options["lower_case"] is not False
    if path is not None and size is not None:
        raise UsageError("--vocab and --vocab_size exclude each other: name a vocabulary, or have one made")
    if path is not None:
        try:
            return WordPiece.from_file(path, lower_case=lower_case)
        except OSError as error:
            raise UsageError(f"--vocab={path} cannot be read: {error.strerror or error}") from error
    if size is None:
        raise UsageError("text needs a vocabulary: give --vocab=FILE, or --vocab_size=8000 to have one made of it")
    texts = _Texts(corpus, on_bad)
    return WordPiece(train_vocabulary(texts, vocab_size=size, lower_case=lower_case), lower_case=lower_case)


class _Texts:
    """The texts to make a vocabulary of."""

    def __init__(self, corpus: Corpus, on_bad: OnBad):
        self._documents = corpus.all_documents(most_bytes=_TRAINED_ON, on_bad=on_bad)

    def __iter__(self) -> Iterator[str]:
        return (document.text for document in self._documents)


def _passed_over(wrong: str) -> None:
    del wrong
