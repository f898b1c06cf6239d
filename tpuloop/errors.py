"""Errors that the user of the package can mend."""

import contextlib
import difflib
from typing import Any, Iterator, Optional


class UsageError(ValueError):
    """A wrong flag, recipe, setting or piece of data. The message says what, which value, and what to do, in one line.

    Commands print it without a traceback and exit with status 2.
    """


class StopRequested(RuntimeError):
    """What was asked for has no result, since somebody called `request_stop` before its end."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def suggestion(name: Any, choices: Any) -> str:
    """ "; did you mean ...?" where one of `choices` is close to `name`, else nothing."""
    close = difflib.get_close_matches(str(name), [str(choice) for choice in choices], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


@contextlib.contextmanager
def usage_errors_as_raised() -> Iterator[None]:
    """Around what traces a function: AutoGraph turns a UsageError raised there into an error of its own and a page."""
    try:
        yield
    except Exception as error:
        cause: Optional[BaseException] = error
        while cause is not None and not isinstance(cause, UsageError):
            cause = cause.__context__
        if cause is None or cause is error:
            raise
        raise cause from None
