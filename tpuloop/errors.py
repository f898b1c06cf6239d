"""Errors that the user of the package can mend."""


class UsageError(ValueError):
    """A wrong flag, recipe, setting or piece of data. The message says what, which value, and what to do, in one line.

    Commands print it without a traceback and exit with status 2.
    """
