"""Plain text: a document a line, or documents separated by blank lines with a sentence a line, as BERT's files are."""

from typing import Iterator, List

from tpuloop.data.text.documents import Document, OnBad, refuse
from tpuloop.data.text.lines import LONGEST, ByteRange, Line, decoded, place, read_lines
from tpuloop.errors import UsageError


def read_documents(part: ByteRange, *, at_blank_lines: bool, on_bad: OnBad = refuse) -> Iterator[Document]:
    """The documents of a range of a file, in order; none is empty.

    Args:
      part: of the file, split with the same `at_blank_lines`.
      at_blank_lines: whether documents end at blank lines, else at every line.
      on_bad: takes what is wrong with a document. Where it returns, the document is left out.

    Raises:
      UsageError: by way of `on_bad`, naming file and line, for what is not UTF-8; for a document of more than 64 MiB.
      OSError: where the file cannot be read.
    """
    waiting: List[Line] = []
    length = 0
    for line in read_lines(part):
        if line.data.strip():
            waiting.append(line)
            length += len(line.data)
            if length > LONGEST:
                raise UsageError(
                    f"{place(part.path, waiting[0].offset)}: a document of more than {LONGEST >> 20} MiB begins here; "
                    "separate documents by blank lines, or say that every line is one"
                )
        if waiting and not (at_blank_lines and line.data.strip()):
            yield from _document(waiting, part.path, on_bad)
            waiting, length = [], 0
    if waiting:
        yield from _document(waiting, part.path, on_bad)


def _document(lines: List[Line], path: str, on_bad: OnBad) -> Iterator[Document]:
    try:
        text = "\n".join(decoded(line, path) for line in lines)
    except UsageError as error:
        on_bad(str(error))
        return
    yield Document(text, path=path, offset=lines[0].offset)
