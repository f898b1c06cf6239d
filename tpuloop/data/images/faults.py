"""Which of many files hold no picture."""

import concurrent.futures
import itertools
from typing import Iterable, Iterator, Optional, Tuple

import tensorflow as tf

from tpuloop.data.images.decode import check_image
from tpuloop.errors import first_line

_AT_ONCE = 1024


def check_image_file(path: str) -> Optional[str]:
    """Why a file is no picture that can be decoded whole, in one line; None where it is one."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return check_image(file.read())
    except tf.errors.OpError as error:
        return f"it cannot be read: {first_line(error)}"


def bad_pictures(paths: Iterable[str], *, threads: int = 8) -> Iterator[Tuple[str, str]]:
    """The files that are no pictures, in order, with the reason; every file is read and decoded."""
    paths = iter(paths)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        # Not all at once: there may be millions.
        for some in iter(lambda: list(itertools.islice(paths, _AT_ONCE)), []):
            for path, reason in zip(some, pool.map(check_image_file, some)):
                if reason is not None:
                    yield path, reason
