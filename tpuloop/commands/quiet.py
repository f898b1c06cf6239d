"""Keeps TensorFlow's start-up noise from the user, and lets its real warnings through."""

import contextlib
import logging
import os
import re
import subprocess
import sys
from typing import Iterator

# Said at every start on a machine without a GPU, or on any CPU: nothing that anybody must do something about.
NOISE = "|".join(
    (
        r"Could not load dynamic library '(libcu|libnv|libTensorRT)",
        r"Ignore above cudart dlerror",
        r"failed call to cuInit",
        r"Cannot dlopen some GPU libraries",
        r"Skipping registering GPU devices",
        r"kernel driver does not appear to be running on this host",
        r"oneDNN custom operations are on",
        r"This TensorFlow binary is optimized with",
        r"To enable them in other operations, rebuild TensorFlow",
        r"retrieving CUDA diagnostic information",
        r"Not using CUDA",
    )
)
_SIEVE = """
import os, re, sys
noise = re.compile(os.fsencode(sys.argv[1]))
for line in sys.stdin.buffer:
    if not noise.search(line):
        try:
            os.write(1, line)
        except OSError:
            pass  # Nobody reads it; TensorFlow must not wait for that.
"""
_PYTHON_NOISE = re.compile(
    r"AutoGraph could not transform|Cause: |To silence this warning, decorate|Please report this to the TensorFlow team"
    r"|Using MirroredStrategy eagerly has significant overhead"
)


def set_log_level() -> None:
    """Hides TensorFlow's C++ notes, not its warnings, unless the user set a level. Call it before TensorFlow loads."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def filter_python_warnings() -> None:
    """Hides AutoGraph's notes on functions it leaves as they are. Loads TensorFlow."""
    import tensorflow as tf

    tf.get_logger().addFilter(_not_noise)


@contextlib.contextmanager
def quiet_start(stream_fd: int = 2) -> Iterator[None]:
    """While TensorFlow loads and looks for devices: drops the lines of NOISE written to standard error by C++ code.

    Everything else passes at once, and through a process of its own: what TensorFlow says before it aborts, on a CPU
    that it was not built for, is the one line that matters.
    """
    kept = os.dup(stream_fd)
    # In a session of its own, so that Ctrl-C does not end it before its time.
    sieve = subprocess.Popen(
        [sys.executable, "-ISc", _SIEVE, NOISE], stdin=subprocess.PIPE, stdout=kept, start_new_session=True
    )
    assert sieve.stdin is not None
    os.dup2(sieve.stdin.fileno(), stream_fd)
    sieve.stdin.close()
    try:
        yield
    finally:
        os.dup2(kept, stream_fd)  # Closes the pipe's last writer, which ends the process.
        os.close(kept)
        sieve.wait()


def _not_noise(record: logging.LogRecord) -> bool:
    return not _PYTHON_NOISE.search(record.getMessage())
