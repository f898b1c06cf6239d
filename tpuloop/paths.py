"""Paths, local or in an object store such as `gs://`: one way to write each, and the files that a pattern names.

Importing this loads no TensorFlow.
"""

import os
import re
from typing import List, Sequence, Union

from tpuloop.errors import UsageError, first_line

_MAGIC = re.compile(r"[*?\[]")
_ONE_SLASH = re.compile(r"(gs|s3|hdfs):/(?!/)")


def is_remote(path: str) -> bool:
    """Whether a path belongs to another file system than the local one, as `gs://bucket/run` does."""
    return "://" in path


def normalised(path: str) -> str:
    """The path as the rest of tpuloop takes it.

    In an object store a slash more makes another name, so doubled and trailing ones go: `gs://bucket//run/` is
    `gs://bucket/run`. A local path stays as it is.

    Raises:
      UsageError: for a remote path without a bucket, and for `gs:/bucket`, which would be a local folder.
    """
    if not is_remote(path):
        scheme = _ONE_SLASH.match(path)
        if scheme:
            raise UsageError(
                f"{path} is no path of an object store: write {scheme[1]}://{path[scheme.end() :]}, with two slashes"
            )
        return path
    scheme_name, _, rest = path.partition("://")
    names = [name for name in rest.split("/") if name]
    # Other file systems may have an empty host, as file:///tmp has.
    if scheme_name == "gs" and (not names or rest.startswith("/")):
        raise UsageError(f"{path} names no bucket: write gs://BUCKET/FOLDER")
    return f"{scheme_name}://{'/' if rest.startswith('/') else ''}{'/'.join(names)}"


def join(folder: str, *names: str) -> str:
    """The path of something in a folder; slashes at the folder's end do no harm.

    Raises:
      UsageError: as `normalised`.
    """
    return os.path.join(normalised(folder), *names)


def files_matching(patterns: Union[str, Sequence[str]]) -> List[str]:
    """The files that patterns name, sorted, each once.

    Args:
      patterns: one or several; each the path of a file, or with `*`, `?` and `[...]` in it for all files that fit. A
        `*` stands for no slash. A file whose name has such a character in it is found by that name too. Folders do
        not count.

    Raises:
      UsageError: naming the first pattern that no file fits, or that cannot be looked up, and what to do.
    """
    import tensorflow as tf

    found = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        path = normalised(pattern)
        has_magic = bool(_MAGIC.search(path))
        try:
            exists = tf.io.gfile.exists(path)
            if exists and tf.io.gfile.isdir(path):
                raise UsageError(f"{pattern} is a folder: name its files, as in {join(path, '*.tfrecord')}")
            files = [path] if exists else _without_folders(tf.io.gfile.glob(path)) if has_magic else []
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(f"{pattern} cannot be looked up: {first_line(error)}") from error
        if not files:
            what = "no file matches" if has_magic else "there is no file"
            raise UsageError(f"{what} {pattern}: check the path (* stands for anything but a slash)")
        found.update(files)
    if not found:
        raise UsageError("no file is named: give the path of one, or a pattern such as DIR/*.tfrecord")
    return sorted(found)


def _without_folders(paths: Sequence[str]) -> List[str]:
    """Those that are files. Asks for each folder that holds some once: in an object store each question takes long."""
    import tensorflow as tf

    folders = {os.path.dirname(path) for path in paths}
    if not any(is_remote(folder) for folder in folders):
        return [path for path in paths if not os.path.isdir(path)]
    inner = {
        os.path.join(folder, name.rstrip("/"))
        for folder in folders
        for name in tf.io.gfile.listdir(folder)
        if name.endswith("/")
    }
    return [path for path in paths if path.rstrip("/") not in inner]
