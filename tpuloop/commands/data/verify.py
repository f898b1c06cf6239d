"""Reads files of records whole, many at once, and compares every checksum that they have."""

import concurrent.futures
import dataclasses
import multiprocessing
from typing import Iterator, List, Optional, Sequence, Tuple

import google_crc32c

from tpuloop.commands.data.record_file import BadStream, compression_of, records_of
from tpuloop.data.records import files
from tpuloop.data.records.framing import RecordFault, read_frames
from tpuloop.data.records.manifest import ShardFile

_CHUNK = 1 << 20
_FEW_BYTES = 1 << 24  # What is read in less time than processes take to start.
_MOST_FAULTS = 100  # Of a file.


@dataclasses.dataclass(frozen=True)
class ToVerify:
    """A file to be read.

    Attributes:
      path: of the file.
      expected: what a manifest says of it.
      example_bytes: of a packed example, where it holds them.
    """

    path: str
    expected: Optional[ShardFile] = None
    example_bytes: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Verified:
    """What was found in a file.

    Attributes:
      path: of the file.
      records: that are whole.
      faults: one line each, the first hundred of them.
      more: how many there are beyond these.
    """

    path: str
    records: int
    faults: Tuple[str, ...]
    more: int = 0


def verified(parts: Sequence[ToVerify], *, processes: int) -> Iterator[Verified]:
    """Each file's result, in the order of `parts`."""
    if processes == 1 or sum(_size(part) for part in parts) < _FEW_BYTES:
        yield from map(verify_file, parts)
        return
    # New processes: a fork of one with threads may hang.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(processes, len(parts)), mp_context=context) as pool:
        yield from pool.map(verify_file, parts)


def verify_file(part: ToVerify) -> Verified:
    """Reads one file."""
    try:
        return _verified(part)
    except (BadStream, OSError) as error:
        return Verified(part.path, 0, (f"it cannot be read: {error}",))


def _verified(part: ToVerify) -> Verified:
    faults: List[str] = []
    expected = part.expected
    if expected is not None:
        size, crc = _whole(part.path)
        if size != expected.bytes:
            faults.append(f"it has {size:,} bytes, and the manifest says {expected.bytes:,}")
        elif crc != expected.crc32c:
            faults.append("the CRC32C of the file is not the one in the manifest")
    records = examples = count = 0

    def note(fault: RecordFault) -> None:
        nonlocal count
        count += 1
        if count <= _MOST_FAULTS:
            faults.append(str(fault))

    with records_of(part.path, compression_of(part.path)) as file:
        for _, data in read_frames(file, on_fault=note):
            records += 1
            if part.example_bytes is not None:
                held, rest = divmod(len(data), part.example_bytes)
                examples += held
                if rest:
                    faults.append(f"record {records + count - 1}: {len(data):,} bytes are no whole number of examples")
    if expected is not None and not count:
        if records != expected.records:
            faults.append(f"it has {records:,} records, and the manifest says {expected.records:,}")
        elif part.example_bytes is not None and examples != expected.examples:
            faults.append(f"it has {examples:,} examples, and the manifest says {expected.examples:,}")
    return Verified(part.path, records, tuple(faults), max(0, count - _MOST_FAULTS))


def _whole(path: str) -> Tuple[int, int]:
    """Bytes and CRC32C of a file."""
    size, crc = 0, google_crc32c.Checksum()
    with files.open_file(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                return size, int.from_bytes(crc.digest(), "big")
            size += len(chunk)
            crc.update(chunk)


def _size(part: ToVerify) -> int:
    return 0 if not files.exists(part.path) else files.size_of(part.path)
