"""Files of text as numbered blocks of documents, any of which can be read without those before it."""

import dataclasses
import itertools
from typing import Iterable, Iterator, Optional, Sequence, Tuple

from tpuloop.data.text.documents import Document, OnBad, refuse
from tpuloop.data.text.json_lines import read_json_lines
from tpuloop.data.text.lines import checked_size, range_of
from tpuloop.data.text.plain_text import read_documents
from tpuloop.errors import UsageError

JSON_LINES, LINES, BLANK_LINES = "json_lines", "lines", "blank_lines"

BLOCK_BYTES = 2**18
_MOST_BLOCKS = 2**14


@dataclasses.dataclass(frozen=True)
class Format:
    """How files hold documents.

    Attributes:
      documents: JSON_LINES, LINES (a document a line) or BLANK_LINES (between documents, with a sentence a line).
      text_field, label_field: of JSON lines.
    """

    documents: str
    text_field: str = "text"
    label_field: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files of one format; see `corpus_of`. A block is a number from 0 to `blocks` - 1, and holds the documents that
    begin in its part of a file: the same ones whoever reads it.

    Attributes:
      format: of all files.
      paths: of the files, in order.
      sizes: of the files, in bytes.
      blocks_of: how many each file has.
    """

    format: Format
    paths: Tuple[str, ...]
    sizes: Tuple[int, ...]
    blocks_of: Tuple[int, ...]

    @property
    def blocks(self) -> int:
        """Of all files."""
        return sum(self.blocks_of)

    def documents(self, block: int, *, on_bad: OnBad = refuse) -> Iterator[Document]:
        """The documents of a block, in order; there may be none.

        Raises:
          UsageError: by way of `on_bad`, naming file and line, for what is no document.
          OSError: where the file cannot be read.
        """
        for path, size, count in zip(self.paths, self.sizes, self.blocks_of):
            if block >= count:
                block -= count
                continue
            between = self.format.documents == BLANK_LINES
            part = range_of(path, block, count, size=size, at_blank_lines=between)
            if part is not None and self.format.documents == JSON_LINES:
                yield from read_json_lines(
                    part, text_field=self.format.text_field, label_field=self.format.label_field, on_bad=on_bad
                )
            elif part is not None:
                yield from read_documents(part, at_blank_lines=between, on_bad=on_bad)
            return

    def all_documents(self, *, most_bytes: Optional[int] = None, on_bad: OnBad = refuse) -> Iterable[Document]:
        """All documents, or those of blocks evenly spread over the files that hold about `most_bytes`.

        Can be gone through again.
        """
        step = 1 if most_bytes is None else max(1, -(-sum(self.sizes) // most_bytes))
        return _Documents(self, range(0, self.blocks, step), on_bad)


@dataclasses.dataclass(frozen=True)
class _Documents:
    corpus: Corpus
    blocks: Sequence[int]
    on_bad: OnBad

    def __iter__(self) -> Iterator[Document]:
        return itertools.chain.from_iterable(self.corpus.documents(block, on_bad=self.on_bad) for block in self.blocks)


def corpus_of(paths: Sequence[str], format: Format, *, block_bytes: int = BLOCK_BYTES) -> Corpus:
    """The corpus of some files, in blocks of 256 KiB, or of more so that there are no more than about 16,384.

    Raises:
      UsageError: for a file that is empty, missing or in another encoding.
    """
    sizes = []
    for path in paths:
        try:
            sizes.append(checked_size(path))
        except FileNotFoundError:
            raise UsageError(f"{path}: there is no such file") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    block_bytes = max(block_bytes, sum(sizes) // _MOST_BLOCKS)
    return Corpus(format, tuple(paths), tuple(sizes), tuple(-(-size // block_bytes) for size in sizes))
