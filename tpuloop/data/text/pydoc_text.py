"""English text that every CPython has: the language reference behind `help()`.

`pydoc_data.topics` is about 450 kB, of which 310 to 340 kB are left without what topics say twice. It differs between
versions of Python, from 3.8 to 3.10 by about a tenth, and a little between their releases.
"""

import hashlib
import importlib
import re
from typing import List, Set, Tuple

from tpuloop.data.text.sequences import Example, Layout, stacked
from tpuloop.data.text.wordpiece import WordPiece

_PASSAGE = 1000  # Characters, about; some 200 tokens.
_HELD_OUT_OF = 10


def passages() -> List[str]:
    """The text in pieces of about 1000 characters, a paragraph a line, no paragraph twice.

    Long topics repeat whole short ones, so that text held out would be trained on. The order and the passages depend on
    the text alone.
    """
    topics = importlib.import_module("pydoc_data.topics").topics
    found: List[str] = []
    seen: Set[str] = set()
    # From the shortest on, so that the short topics stay whole.
    for name in sorted(topics, key=lambda name: (len(topics[name]), name)):
        passage: List[str] = []
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            paragraph = " ".join(paragraph.split())
            if paragraph and paragraph not in seen:
                seen.add(paragraph)
                passage.append(paragraph)
            if sum(map(len, passage)) >= _PASSAGE:
                found.append("\n".join(passage))
                passage = []
        if passage:
            found.append("\n".join(passage))
    return found


def split(texts: List[str]) -> Tuple[List[str], List[str]]:
    """Those to train on, and about a tenth that is held out, by a hash of the text of each."""
    train: List[str] = []
    held_out: List[str] = []
    for text in texts:
        (held_out if is_held_out(text, one_in=_HELD_OUT_OF) else train).append(text)
    return train, held_out


def is_held_out(text: str, *, one_in: int) -> bool:
    """Whether a text is among the one in so many that are held out, by its hash."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big") % one_in == 0


def packed(texts: List[str], *, words: WordPiece, layout: Layout) -> Example:
    """Passages as sequences without padding, but at the end of the last: features of shape [examples, length]."""
    return stacked(list(layout.packed(words.encode(text) for text in texts)))
