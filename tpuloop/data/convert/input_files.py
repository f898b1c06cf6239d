"""Files to convert: opened, with one line for what cannot be, and told apart from changed ones."""

import os
from typing import Any, Dict, Sequence

from tpuloop.data.records import files
from tpuloop.errors import UsageError
from tpuloop.paths import is_remote


def opened_input(path: str) -> Any:
    """The file, to be read as bytes.

    Raises:
      UsageError: where it cannot be opened.
    """
    if not is_remote(path) and os.path.isdir(path):
        raise UsageError(f"{path} is a folder: give files, as with {os.path.join(path, '*')}")
    try:
        return files.open_file(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def fingerprint(paths: Sequence[str]) -> Dict[str, Any]:
    """Plain data that changes when files do: their names, sizes and, of local ones, times of the last change.

    Raises:
      UsageError: where one cannot be looked at.
    """
    listed = []
    for path in paths:
        opened_input(path).close()
        entry: Dict[str, Any] = {"file": path, "bytes": files.size_of(path)}
        if not is_remote(path):
            entry["changed"] = os.stat(path).st_mtime_ns
        listed.append(entry)
    return {"files": listed}
