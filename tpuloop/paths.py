"""Paths, local or in an object store such as `gs://`: one way to write each, and the files that a pattern names.

Importing this loads no TensorFlow.
"""

import fnmatch
import os
import re
from typing import List, Sequence, Union

from tpuloop import gcs_plugin
from tpuloop.errors import UsageError, first_line

_MAGIC = re.compile(r"[*?\[]")
_ONE_SLASH = re.compile(r"(gs|s3|hdfs):/(?!/)")


def is_remote(path: str) -> bool:
    """Whether a path belongs to another file system than the local one, as `gs://bucket/run` does."""
    return "://" in path


def normalised(path: str) -> str:
    """The path as the rest of tpuloop takes it.

    In an object store a slash more makes another name, so doubled and trailing ones go: `gs://bucket//run/` is
    `gs://bucket/run`. Only a bucket itself ends in one, as TensorFlow wants it. A local path stays as it is.

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
    end = "/" if scheme_name == "gs" and len(names) == 1 else ""
    return f"{scheme_name}://{'/' if rest.startswith('/') else ''}{'/'.join(names)}{end}"


def join(folder: str, *names: str) -> str:
    """The path of something in a folder; slashes at the folder's end do no harm.

    Raises:
      UsageError: as `normalised`.
    """
    return os.path.join(normalised(folder), *names)


def is_folder(path: str) -> bool:
    """Whether there is a folder. Not as `tf.io.gfile.isdir`, which says no as well where it could not find out.

    Raises:
      tf.errors.OpError: where the file system does not answer, or does not let us in.
    """
    import tensorflow as tf

    try:
        return bool(tf.io.gfile.stat(path).is_directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):  # The latter below a file.
        return False


def check_bucket(path: str) -> None:
    """Looks for the bucket of a `gs://` path: to TensorFlow one that is missing looks like an empty one.

    Raises:
      UsageError: where there is none.
    """
    if not path.startswith("gs://"):
        return
    import tensorflow as tf

    bucket = path[len("gs://") :].partition("/")[0]
    try:
        tf.io.gfile.stat(f"gs://{bucket}/")
    except tf.errors.NotFoundError as error:
        raise UsageError(f"{path}: there is no bucket {bucket}: make it, or correct the name") from error
    except tf.errors.OpError:
        pass  # Who may use what is in a bucket need not be allowed to look at the bucket itself.


def is_pattern(path: str) -> bool:
    """Whether a path has `*`, `?` or `[` in it, and so may stand for several."""
    return bool(_MAGIC.search(path))


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

    gcs_plugin.avoid_faults(os.environ)
    found = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        path = normalised(pattern)
        has_magic = is_pattern(path)
        try:
            if is_folder(path):
                raise UsageError(f"{pattern} is a folder: name its files, as in {join(path, '*.tfrecord')}")
            files = [path] if tf.io.gfile.exists(path) else _glob(path) if has_magic else []
            if not files:
                check_bucket(path)
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(f"{pattern} cannot be looked up: {first_line(error)}") from error
        if not files:
            what = "no file matches" if has_magic else "there is no file"
            raise UsageError(f"{what} {pattern}: check the path (* stands for anything but a slash)")
        found.update(files)
    if not found:
        raise UsageError("no file is named: give the path of one, or a pattern such as DIR/*.tfrecord")
    return sorted(found)


def _glob(pattern: str) -> List[str]:
    """The files that a pattern fits.

    A remote one is followed folder by folder, each listed once: `tf.io.gfile.glob` finds nothing there where a folder's
    name has a `*`, tells files from folders by asking for each, and gives nothing where it could not ask.
    """
    import tensorflow as tf

    if not is_remote(pattern):
        return [path for path in tf.io.gfile.glob(pattern) if not os.path.isdir(path)]
    scheme, _, rest = pattern.partition("://")
    host, *parts = rest.split("/")
    folders = [f"{scheme}://{host}/"]
    for part in parts[:-1]:
        if not is_pattern(part):
            folders = [os.path.join(folder, part) for folder in folders]
        else:
            folders = [os.path.join(folder, name[:-1]) for folder in folders for name in _listed(folder, f"{part}/")]
    return [os.path.join(folder, name) for folder in folders for name in _listed(folder, parts[-1])]


def _listed(folder: str, pattern: str) -> List[str]:
    """The names in a remote folder that fit; those of folders end in a slash, and fit only a pattern that does."""
    import tensorflow as tf

    if not is_folder(folder):
        return []
    return [
        name
        for name in tf.io.gfile.listdir(folder)
        if fnmatch.fnmatchcase(name, pattern) and (name[-1:] == "/") == (pattern[-1:] == "/")
    ]
