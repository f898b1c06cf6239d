"""Token ids to examples of one fixed length, with BERT's feature names.

An example is a dict of `input_ids`, `input_mask` (1 for tokens, 0 for padding) and `segment_ids`, each int32 of shape
[sequence_length]; pairs have `next_sentence_labels` too, int32 of shape []. NumPy only.
"""

import dataclasses
from typing import Any, Dict, Iterable, Iterator, List, Sequence

import numpy as np

from tpuloop.data.splitmix import Draws
from tpuloop.data.text.special import SpecialTokens
from tpuloop.errors import UsageError

Example = Dict[str, np.ndarray]

_LONGEST = 65_535  # Positions must fit into 16 bits, see `masking`.


@dataclasses.dataclass(frozen=True)
class Layout:
    """How sequences are laid out.

    Attributes:
      sequence_length: tokens of an example, special tokens and padding among them.
      special: the special tokens' ids.
    """

    sequence_length: int
    special: SpecialTokens = SpecialTokens()

    def __post_init__(self) -> None:
        if not 5 <= self.sequence_length <= _LONGEST:
            raise UsageError(
                f"sequence_length={self.sequence_length}: give 5 (three special tokens and two more) to {_LONGEST}"
            )

    def padded(self, tokens: np.ndarray) -> Example:
        """[CLS] tokens [SEP], padded: one text an example, cut off where it is too long.

        Args:
          tokens: int [n].
        """
        special = self.special
        tokens = tokens[: self.sequence_length - 2]
        return self._example([[special.start], tokens, [special.separator]], first_segment=self.sequence_length)

    def packed(self, documents: Iterable[np.ndarray]) -> Iterator[Example]:
        """All tokens of all documents once, in sequences without padding.

        Documents run on, each with a [SEP] behind it, and are cut wherever a sequence is full; every sequence begins
        with a [CLS]. The last one is padded.

        Args:
          documents: int [n] each; empty ones are passed over.
        """
        room = self.sequence_length - 1
        waiting: List[np.ndarray] = []
        count = 0
        for tokens in documents:
            if not len(tokens):
                continue
            waiting += [tokens, np.array([self.special.separator])]
            count += len(tokens) + 1
            if count >= room:
                run = np.concatenate(waiting)
                full = count // room * room
                for begin in range(0, full, room):
                    yield self._packed(run[begin : begin + room])
                waiting, count = [run[full:]], count - full
        if count:
            yield self._packed(np.concatenate(waiting))

    def _packed(self, tokens: np.ndarray) -> Example:
        return self._example([[self.special.start], tokens], first_segment=self.sequence_length)

    def pair(self, first: np.ndarray, second: np.ndarray, *, random_next: bool) -> Example:
        """[CLS] first [SEP] second [SEP], padded; segment 0 up to the first [SEP], 1 up to the second, and the label.

        Raises:
          ValueError: where it is too long.
        """
        special = self.special
        parts = [[special.start], first, [special.separator], second, [special.separator]]
        example = self._example(parts, first_segment=len(first) + 2)
        example["next_sentence_labels"] = np.array(int(random_next), np.int32)
        return example

    def _example(self, parts: Sequence[Any], *, first_segment: int) -> Example:
        tokens = np.concatenate(parts)
        if len(tokens) > self.sequence_length:
            raise ValueError(f"{len(tokens)} tokens do not fit into {self.sequence_length}")
        ids = np.full(self.sequence_length, self.special.pad, np.int32)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        ids[: len(tokens)] = tokens
        mask[: len(tokens)] = 1
        segments[first_segment : len(tokens)] = 1
        return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def sentence_pairs(
    documents: Sequence[Sequence[np.ndarray]],
    number: int,
    *,
    layout: Layout,
    seed: int,
    first_number: int = 0,
    short_share: float = 0.1,
) -> Iterator[Example]:
    """The next-sentence examples of one document, as in the original release of BERT (arXiv:1810.04805, A.1 and A.2).

    Runs of sentences that fill a sequence are split into A and B at a random sentence. In half of them B is replaced by
    sentences of another document, from a random one on (label 1), and the sentences it displaced come again in the
    next run; else B follows A (label 0). Only the last sentence of a document has nothing that could follow, and
    always gets another document's B if it is left alone; the original release does so with every sentence that fills a
    sequence, of which long ones make far more than half.
    A tenth of all documents is cut into runs of a random shorter length. What is too long loses tokens at its ends.

    What comes out depends on `documents`, `seed` and the document's number only.

    Args:
      documents: the documents that B may come from, `number` among them: lists of sentences, int [n] each. Documents
        and sentences must not be empty.
      number: index of the document.
      layout: the length and the special tokens.
      first_number: what the first of `documents` has as its number among all, where they are a part.
      short_share: the share of documents whose runs are shorter.

    Raises:
      UsageError: where there is no other document.
    """
    if len(documents) < 2:
        raise UsageError("sentence pairs need two documents: a second sentence is drawn from another document")
    document = documents[number]
    draws = Draws(seed, first_number + number)
    room = layout.sequence_length - 3
    target = 2 + draws.below(room - 1) if draws.chance(short_share) else room
    begin = 0
    while begin < len(document):
        end, length = begin, 0
        while end < len(document) and (length < target or end == begin + 1):
            length += len(document[end])
            end += 1
        split = begin + 1 + (draws.below(end - begin - 1) if end - begin > 1 else 0)
        first = np.concatenate(document[begin:split])
        random_next = end - begin == 1 or draws.chance(0.5)
        if random_next:
            other = draws.below(len(documents) - 1)
            other += other >= number
            second = _from_random_sentence(documents[other], draws, length=target - len(first))
            begin = split
        else:
            second = np.concatenate(document[split:end])
            begin = end
        yield layout.pair(*_shortened(first, second, room, draws), random_next=random_next)


def _from_random_sentence(document: Sequence[np.ndarray], draws: Draws, *, length: int) -> np.ndarray:
    """Sentences in a row, from a random one until there are `length` tokens or no more."""
    begin = end = draws.below(len(document))
    found = 0
    while end < len(document) and (end == begin or found < length):
        found += len(document[end])
        end += 1
    return np.concatenate(document[begin:end])


def _shortened(first: np.ndarray, second: np.ndarray, room: int, draws: Draws) -> List[np.ndarray]:
    """The two without tokens at either end, always of the longer one, until they fit."""
    bounds = [[0, len(first)], [0, len(second)]]
    for _ in range(len(first) + len(second) - room):
        longer = bounds[0] if bounds[0][1] - bounds[0][0] > bounds[1][1] - bounds[1][0] else bounds[1]
        if draws.chance(0.5):  # Lest the ends be always the same.
            longer[0] += 1
        else:
            longer[1] -= 1
    return [tokens[begin:end] for tokens, (begin, end) in zip((first, second), bounds)]


def stacked(examples: Sequence[Example]) -> Example:
    """Examples as one batch: every feature with a first dimension that counts them."""
    return {name: np.stack([example[name] for example in examples]) for name in examples[0]}
