"""A data set of labelled text that needs no download."""

import numpy as np

from tpuloop.data.arrays import ArraySource
from tpuloop.data.sets.pydoc import vocabulary
from tpuloop.data.sets.registry import DataSets
from tpuloop.data.text.docstrings_text import PACKAGES, labelled_docstrings
from tpuloop.data.text.pydoc_text import is_held_out
from tpuloop.data.text.sequences import Layout, stacked

_HELD_OUT_OF = 5


def docstrings(*, sequence_length: int = 64, vocab_size: int = 4000, lower_case: bool = True) -> DataSets:
    """Docstrings of CPython's standard library, to be told apart by the package that each is from; 8 classes.

    `x` is a dict of `input_ids`, `input_mask` and `segment_ids`, int32 of shape [sequence_length]; `y` the number of
    the package. The vocabulary is that of `pydoc` with the same arguments, so that weights trained there fit here. A
    fifth is held out, by a hash of each text. The text differs a little between versions of Python.

    Args:
      sequence_length: tokens of an example; longer text is cut off.
      vocab_size, lower_case: as for `pydoc`.

    Raises:
      UsageError: where the package `tokenizers` is missing, or an argument is out of range.
    """
    words = vocabulary(vocab_size=vocab_size, lower_case=lower_case)
    layout = Layout(sequence_length, words.special)
    texts, labels = labelled_docstrings()
    x = stacked([layout.padded(words.encode(text)) for text in texts])
    y = np.array(labels, np.int64)
    held_out = np.array([is_held_out(text, one_in=_HELD_OUT_OF) for text in texts])

    def part(rows: np.ndarray) -> ArraySource:
        return ArraySource(({name: feature[rows] for name, feature in x.items()}, y[rows]))

    most_frequent = np.bincount(y[~held_out]).argmax()
    return DataSets(
        train=part(~held_out),
        evaluation=part(held_out),
        model_arguments={
            "vocab_size": words.vocab_size,
            "sequence_length": sequence_length,
            "num_classes": len(PACKAGES),
            "task": "classification",
        },
        description=f"{int((~held_out).sum()):,} docstrings of {len(PACKAGES)} packages to train on, "
        f"{int(held_out.sum()):,} held out",
        baseline={"accuracy": float(np.mean(y[held_out] == most_frequent))},
    )
