"""How many records there are in TFRecord files: what a position needs, and the files themselves do not say.

Counting reads the lengths of all records and passes over their data. What took long is kept in the user's cache
folder, by path, size and time of change.
"""

import concurrent.futures
import hashlib
import json
import logging
import os
import time
from typing import Dict, List, Optional, Sequence

import tensorflow as tf

from tpuloop import paths
from tpuloop.data.checks import DataError
from tpuloop.data.lanes import RecordFile
from tpuloop.data.records.files import open_file, write_atomically
from tpuloop.data.records.framing import RecordFault, count_frames
from tpuloop.errors import first_line

logger = logging.getLogger("tpuloop")

_AT_ONCE = 16
_WORTH_KEEPING = 2.0  # Seconds.
_SAID_AFTER = 64  # Files.


def counted(files: Sequence[str], *, compression: str = "") -> List[RecordFile]:
    """TFRecord files of one example a record with the number of their records.

    Args:
      files: local paths or such as gs://BUCKET/FILE.
      compression: "", "GZIP" or "ZLIB".

    Raises:
      DataError: for a file that is missing or no TFRecord file, naming the record.
    """
    key = hashlib.sha256("\n".join([compression, *map(_identity, files)]).encode()).hexdigest()
    counts = _kept(key)
    if counts is None or len(counts) != len(files):
        if len(files) >= _SAID_AFTER:
            logger.info("counting the records of %d files, once", len(files))
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            counts = list(pool.map(_count_compressed if compression else _count, files, [compression] * len(files)))
        if time.monotonic() - began > _WORTH_KEEPING:
            _keep(key, counts)
    return [RecordFile(path, count, count) for path, count in zip(files, counts)]


def _identity(path: str) -> str:
    try:
        found = tf.io.gfile.stat(path)
    except tf.errors.OpError as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
    return f"{path if paths.is_remote(path) else os.path.abspath(path)} {found.length} {found.mtime_nsec}"


def _count(path: str, compression: str) -> int:
    del compression
    try:
        with open_file(path) as file:
            return count_frames(file)
    except RecordFault as fault:
        raise DataError(f"{path}, {fault}: make the file anew, or leave it out") from fault
    except (OSError, tf.errors.OpError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error


def _count_compressed(path: str, compression: str) -> int:
    dataset = tf.data.TFRecordDataset(path, compression_type=compression).batch(1024)
    try:
        return int(dataset.reduce(tf.constant(0, tf.int64), lambda count, records: count + tf.size(records, tf.int64)))
    except tf.errors.OpError as error:
        raise DataError(f"{path} is not a TFRecord file with the compression {compression}: {first_line(error)}") from (
            error
        )


def _cache_file(key: str) -> str:
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(folder, "tpuloop", f"records-{key[:32]}.json")


def _kept(key: str) -> Optional[List[int]]:
    try:
        with open(_cache_file(key), encoding="utf-8") as file:
            kept: Dict[str, List[int]] = json.load(file)
        return kept["counts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(key: str, counts: List[int]) -> None:
    path = _cache_file(key)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, json.dumps({"counts": counts}).encode())
    except OSError as error:
        logger.info("the number of records is not kept for the next time: %s", first_line(error))
