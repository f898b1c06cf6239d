"""Documents, and the sentences in them."""

import dataclasses
import re
from typing import Callable, List, Optional, Union

from tpuloop.errors import UsageError

OnBad = Callable[[str], None]
"""Takes what is wrong with a document. Returns where the document is to be left out, else raises UsageError."""

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclasses.dataclass(frozen=True)
class Document:
    """Attributes:
    text: of it.
    label: as it was given, where there was one.
    path, offset: where its first byte is.
    """

    text: str
    label: Optional[Union[int, str]] = None
    path: str = ""
    offset: int = 0


def refuse(wrong: str) -> None:
    """Leaves nothing out."""
    raise UsageError(wrong)


def sentences(text: str) -> List[str]:
    """The lines of a text that has several, as in BERT's own files; else what ends with a full stop or the like."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    return lines if len(lines) != 1 else _END_OF_SENTENCE.split(lines[0])
