"""Data sets of text."""

from typing import Mapping, Optional

import numpy as np

from tpuloop.data.arrays import ArraySource
from tpuloop.data.sets.registry import DataSets
from tpuloop.data.source import Source
from tpuloop.data.text import masking as masks
from tpuloop.data.text import pydoc_text
from tpuloop.data.text.masked_source import masked_source
from tpuloop.data.text.sequences import Example, Layout
from tpuloop.data.text.wordpiece import WordPiece
from tpuloop.errors import UsageError


def pydoc(
    *,
    sequence_length: int = 128,
    vocab_size: int = 4000,
    lower_case: bool = True,
    masking: str = "each_epoch",
    mask_rate: float = 0.15,
    max_predictions: Optional[int] = None,
    seed: int = 0,
) -> DataSets:
    """English text for masked language modelling: the language reference that comes with CPython.

    Examples are dicts with BERT's feature names; see `text.sequences` and `text.masking`. The vocabulary is trained on
    the text to train on, which takes about a second. The text differs between versions of Python.

    Args:
      sequence_length: tokens of an example; the text runs on through them.
      vocab_size: tokens of the vocabulary.
      lower_case: whether text is lower-cased.
      masking: "each_epoch" masks anew in every epoch (and what is held out always alike), "static" once for all.
      mask_rate: the share of tokens to predict.
      max_predictions: places to predict at most; by default as many as the rate asks for.
      seed: of static masks. Others follow the run's seed.

    Raises:
      UsageError: where the package `tokenizers` is missing, or an argument is out of range.
    """
    if masking not in ("each_epoch", "static"):
        raise UsageError(f"masking={masking!r}: give 'each_epoch' or 'static'")
    train, held_out = pydoc_text.split(pydoc_text.passages())
    words = WordPiece.trained(train, vocab_size=vocab_size, lower_case=lower_case)
    layout = Layout(sequence_length, words.special)
    how = masks.Masking(
        vocab_size=words.vocab_size,
        max_predictions=masks.default_predictions(sequence_length, rate=mask_rate)
        if max_predictions is None
        else max_predictions,
        rate=mask_rate,
        special=words.special,
    )

    features = [pydoc_text.packed(texts, words=words, layout=layout) for texts in (train, held_out)]

    def source(features: Example, part: int) -> Source:
        if masking == "each_epoch":
            return masked_source(ArraySource(features), masking=how)
        numbers = np.arange(len(features["input_ids"]))
        seeds = np.stack([np.full_like(numbers, 2 * seed + part), numbers], axis=1)
        return ArraySource(masks.masked(features, seeds=seeds, masking=how))

    sources = [source(part, number) for number, part in enumerate(features)]
    return DataSets(
        train=sources[0],
        evaluation=sources[1],
        model_arguments={
            "vocab_size": words.vocab_size,
            "sequence_length": sequence_length,
            "max_predictions": how.max_predictions,
            "task": "masked_lm",
        },
        description=f"{sources[0].size:,} sequences to train on, {sources[1].size:,} held out, "
        f"{words.vocab_size:,} tokens in the vocabulary",
        baseline=_unigram_baseline(*(part["input_ids"] for part in features), words=words),
    )


def vocabulary(*, vocab_size: int, lower_case: bool) -> WordPiece:
    """The vocabulary of the text to train on."""
    train, _ = pydoc_text.split(pydoc_text.passages())
    return WordPiece.trained(train, vocab_size=vocab_size, lower_case=lower_case)


def _unigram_baseline(train: np.ndarray, held_out: np.ndarray, *, words: WordPiece) -> Mapping[str, float]:
    """What frequencies alone give: tokens as often as in the training text (add-one smoothed), whatever the context."""
    counts, wanted = (np.bincount(ids.ravel(), minlength=words.vocab_size).astype(float) for ids in (train, held_out))
    for count in (counts, wanted):
        count[list(words.special.ids)] = 0
    log_shares = np.log((counts + 1) / (counts + 1).sum())
    wanted /= wanted.sum()
    return {"loss": float(-wanted @ log_shares), "masked_accuracy": float(wanted[counts.argmax()])}
