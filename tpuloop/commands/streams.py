"""Standard streams that cannot end a run: one may be closed, or lose its reader, and hours of training go on.

Of the two only standard output holds results: that they cannot be written is an error.
"""

import errno
import os
import sys
from typing import Any

_READER_IS_GONE = (errno.EPIPE, errno.EIO)  # A pipe's, a terminal's.


def keep_open() -> None:
    """Puts /dev/null where a standard stream is closed, and lets nobody's absence be an error.

    Were a stream left closed, the next file to be opened would get its number, and what C++ code prints.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number, which is this one.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), _Patient):
            setattr(sys, name, _Patient(getattr(sys, name), forgives_all=name == "stderr"))


class _Patient:
    """A text stream that goes silent when its reader is gone.

    Args:
      stream: what to write to.
      forgives_all: any other error, such as a full disk, silences it as well, and is not raised.
    """

    def __init__(self, stream: Any, *, forgives_all: bool = False):
        self._stream = stream
        self._forgives_all = forgives_all

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._go_silent(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._go_silent(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _go_silent(self, error: OSError) -> None:
        if error.errno not in _READER_IS_GONE and not self._forgives_all:
            raise error
        # Beneath the stream, so that what it still holds can be written, and C++ code can print.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
