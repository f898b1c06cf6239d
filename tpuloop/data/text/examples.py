"""From documents to batches of examples, block by block."""

import dataclasses
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from tpuloop.data.text.corpus import Corpus
from tpuloop.data.text.documents import Document, OnBad, refuse, sentences
from tpuloop.data.text.lines import place
from tpuloop.data.text.masking import Masking, masked
from tpuloop.data.text.sequences import Example, Layout, sentence_pairs, stacked
from tpuloop.data.text.wordpiece import WordPiece
from tpuloop.errors import UsageError

PACK, PAD, PAIRS = "pack", "pad", "pairs"

_TOGETHER = 512  # Examples of a batch.


class Numbered(NamedTuple):
    """Examples with the numbers of their documents.

    Attributes:
      numbers: int64 [n]; of a packed sequence, that of the document which its first token belongs to.
      features: arrays [n, ...] by feature.
    """

    numbers: np.ndarray
    features: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TextExamples:
    """What examples are made of a corpus, and how. Can be pickled.

    A block's examples are functions of the corpus, the seed and the block's number.

    Attributes:
      corpus: of the documents.
      words: the tokenizer.
      layout: of the sequences.
      how: PACK, PAD or PAIRS.
      masking: static masks, or None.
      seed: of pairs and static masks.
      classes: the number of each label that is text; None for whole numbers.
    """

    corpus: Corpus
    words: WordPiece
    layout: Layout
    how: str
    masking: Optional[Masking] = None
    seed: int = 0
    classes: Optional[Mapping[str, int]] = None

    @property
    def labelled(self) -> bool:
        """Whether examples have a label, `y`."""
        return self.corpus.format.label_field is not None

    def features(self) -> Dict[str, Tuple[str, Tuple[int, ...]]]:
        """The dtype and shape of every feature of an example, in order."""
        found: Dict[str, Tuple[str, Tuple[int, ...]]] = {}
        for name in ("input_ids", "input_mask", "segment_ids"):
            found[name] = ("int32", (self.layout.sequence_length,))
        if self.masking is not None:
            for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
                dtype = "float32" if name == "masked_lm_weights" else "int32"
                found[name] = (dtype, (self.masking.max_predictions,))
        if self.how == PAIRS:
            found["next_sentence_labels"] = ("int32", ())
        if self.labelled:
            found["y"] = ("int64", ())
        return found

    def of_block(self, block: int, *, on_bad: OnBad = refuse) -> Iterator[Numbered]:
        """The examples of a block, some hundreds at a time; there may be none.

        Raises:
          UsageError: by way of `on_bad`, for documents that cannot be used; for pairs where there is but one document.
          OSError: where a file cannot be read.
        """
        first_number = block << 32
        made = {PACK: self._packed, PAD: self._padded, PAIRS: self._pairs}[self.how](block, on_bad)
        waiting: List[Tuple[int, Example]] = []
        done = 0
        for pair in made:
            waiting.append(pair)
            if len(waiting) == _TOGETHER:
                yield self._batch(waiting, first_number, done)
                done += len(waiting)
                waiting = []
        if waiting:
            yield self._batch(waiting, first_number, done)

    def _batch(self, pairs: Sequence[Tuple[int, Example]], first_number: int, done: int) -> Numbered:
        features = stacked([example for _, example in pairs])
        if self.masking is not None:
            numbers = first_number + done + np.arange(len(pairs), dtype=np.int64)
            seeds = np.stack([np.full_like(numbers, self.seed), numbers], axis=1)
            features = masked(features, seeds=seeds, masking=self.masking)
        numbers = first_number + np.array([number for number, _ in pairs], np.int64)
        return Numbered(numbers, {name: features[name] for name in self.features()})

    def _padded(self, block: int, on_bad: OnBad) -> Iterator[Tuple[int, Example]]:
        for number, document in enumerate(self.corpus.documents(block, on_bad=on_bad)):
            tokens = self.words.encode(document.text)
            if self.labelled:
                label = self._label(document, on_bad)
                if label is not None:
                    yield number, {**self.layout.padded(tokens), "y": np.array(label, np.int64)}
            elif len(tokens):
                yield number, self.layout.padded(tokens)

    def _label(self, document: Document, on_bad: OnBad) -> Optional[int]:
        label = document.label
        if self.classes is not None and isinstance(label, str):
            return self.classes[label]
        if self.classes is None and isinstance(label, int) and -(2**63) <= label < 2**63:
            return label
        wanted = "a whole number of 64 bits" if self.classes is None else "a string"
        where = place(document.path, document.offset)
        on_bad(f"{where}: the label {label!r} is not {wanted}, as the first one is")
        return None

    def _packed(self, block: int, on_bad: OnBad) -> Iterator[Tuple[int, Example]]:
        ends: List[int] = []  # Of the documents, in the tokens of all.

        def tokens() -> Iterator[np.ndarray]:
            for document in self.corpus.documents(block, on_bad=on_bad):
                ids = self.words.encode(document.text)
                ends.append((ends[-1] if ends else 0) + (len(ids) + 1 if len(ids) else 0))
                yield ids

        room = self.layout.sequence_length - 1
        for index, example in enumerate(self.layout.packed(tokens())):
            yield int(np.searchsorted(ends, index * room, side="right")), example

    def _pairs(self, block: int, on_bad: OnBad) -> Iterator[Tuple[int, Example]]:
        documents = self._sentences(self.corpus.documents(block, on_bad=on_bad))
        own = len(documents)
        # A second sentence comes from another document, which is in the same block but for a block of a single one.
        for further in range(1, self.corpus.blocks):
            if len(documents) >= 2 or not own:
                break
            other = (block + further) % self.corpus.blocks
            documents += self._sentences(self.corpus.documents(other, on_bad=lambda wrong: None))
        for number in range(own):
            pairs = sentence_pairs(documents, number, layout=self.layout, seed=self.seed, first_number=block << 32)
            for example in pairs:
                yield number, example

    def _sentences(self, documents: Iterable[Document]) -> List[List[np.ndarray]]:
        """The sentences of each document that has any."""
        found = []
        for document in documents:
            encoded = [self.words.encode(sentence) for sentence in sentences(document.text)]
            encoded = [tokens for tokens in encoded if len(tokens)]
            if encoded:
                found.append(encoded)
        return found


def classes_of(documents: Iterable[Document]) -> Optional[Tuple[str, ...]]:
    """The different labels in sorted order, where they are strings; None where the first is a whole number.

    Raises:
      UsageError: where there are no documents.
    """
    found: Set[str] = set()
    for document in documents:
        if isinstance(document.label, str):
            found.add(document.label)
        elif not found:
            return None
    if not found:
        raise UsageError("there are no documents with a label")
    return tuple(sorted(found))
