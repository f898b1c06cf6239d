"""The five tokens of BERT that stand for no text."""

import dataclasses
from typing import Iterable, Tuple

from tpuloop.errors import UsageError

NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Their ids.

    Attributes:
      pad: fills a sequence up.
      unknown: a word that the vocabulary cannot spell.
      start: [CLS], the first token of every sequence.
      separator: [SEP], the end of a text.
      mask: in place of a token to be predicted.
    """

    pad: int = 0
    unknown: int = 1
    start: int = 2
    separator: int = 3
    mask: int = 4

    def __post_init__(self) -> None:
        if len(set(self.ids)) != len(NAMES) or min(self.ids) < 0:
            raise UsageError(f"the special tokens need five ids of their own from 0 up, not {self.ids}")

    @property
    def ids(self) -> Tuple[int, ...]:
        """All five, in the order of NAMES."""
        return (self.pad, self.unknown, self.start, self.separator, self.mask)

    @classmethod
    def of(cls, vocabulary: Iterable[str], *, what: str) -> "SpecialTokens":
        """Those of a vocabulary, whose n-th token has the id n.

        Raises:
          UsageError: naming `what` and the tokens that are not there.
        """
        ids = {token: number for number, token in enumerate(vocabulary) if token in NAMES}
        missing = [name for name in NAMES if name not in ids]
        if missing:
            raise UsageError(f"{what} lacks {', '.join(missing)}: BERT's special tokens must be in it, a line for each")
        return cls(*(ids[name] for name in NAMES))
