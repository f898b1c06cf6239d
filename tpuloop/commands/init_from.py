"""--init_from: `tpuloop.init_from` for a new run, looked at before TensorFlow is loaded, and its errors with flags."""

import os
from typing import Any, Optional

from tpuloop.errors import UsageError
from tpuloop.initial_weights import init_from, refused
from tpuloop.paths import is_remote, normalised


def start_from(model: Any, path: str) -> Any:
    """As `tpuloop.init_from`.

    Raises:
      UsageError: as there; the message also names the flag, or what to install.
    """
    try:
        return init_from(model, path)
    except UsageError as error:
        raise UsageError(f"{error}{_remedy(error.__cause__)}") from error


def check_path(path: str) -> None:
    """Looks for a local path, and for what reads it, without TensorFlow.

    Raises:
      UsageError: where there is nothing that can be read.
    """
    path = normalised(path)
    if is_remote(path) or _looks_like_run(path):
        return  # To be seen when TensorFlow is there.
    from tpuloop.models.weights import files

    try:
        files.find(path)
    except ValueError as error:
        raise UsageError(f"{refused(path, error)}{_remedy(error)}") from error


def looks_new(workdir: str) -> bool:
    """Whether a local workdir has no checkpoints, found out without TensorFlow; no where it cannot be."""
    if is_remote(workdir):
        return False
    try:
        return not os.listdir(os.path.join(workdir, "checkpoints"))
    except FileNotFoundError:
        return True
    except OSError:
        return False  # What is wrong with the workdir is said later.


def _remedy(error: Optional[BaseException]) -> str:
    from tpuloop.models.weights.errors import OtherVariant, PackageMissing

    if isinstance(error, OtherVariant):
        return f" (--config.model.{error.argument}={error.value})"
    if isinstance(error, PackageMissing):
        return ": pip install 'tpuloop[weights]'"
    return ""


def _looks_like_run(path: str) -> bool:
    if not os.path.isdir(path) or not os.access(path, os.R_OK):
        return False
    names = [os.path.basename(path.rstrip("/")), *os.listdir(path)]
    return any(name == "checkpoints" or name.startswith("step-") for name in names)
