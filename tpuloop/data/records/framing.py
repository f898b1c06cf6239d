"""The frames of a TFRecord file: a length, its checksum, the data, its checksum. No TensorFlow here."""

import io
import struct
from typing import BinaryIO, Callable, Iterator, Optional, Tuple

import google_crc32c

TRUNCATED, LENGTH_CHECKSUM, DATA_CHECKSUM = "truncated", "length checksum", "data checksum"

_HEAD = struct.Struct("<QI")  # The length of the data, and the masked CRC32C of those eight bytes.
_FOOT = struct.Struct("<I")
HEAD_BYTES = _HEAD.size
OVERHEAD = HEAD_BYTES + _FOOT.size


class RecordFault(ValueError):
    """A frame that is not as it was written.

    Attributes:
      record: its number in the file, from 0.
      offset: the byte at which it begins.
      reason: 'truncated', 'length checksum' or 'data checksum'. Only after the last is it known where the next begins.
      says: the reason in words.
    """

    def __init__(self, *, record: int, offset: int, reason: str):
        super().__init__(f"record {record} at byte {offset}: {_SAYS[reason]}")
        self.record = record
        self.offset = offset
        self.reason = reason
        self.says = _SAYS[reason]


_SAYS = {
    TRUNCATED: "the file ends inside it",
    LENGTH_CHECKSUM: "the checksum of its length is wrong, so that nothing after it can be found",
    DATA_CHECKSUM: "the checksum of its data is wrong",
}


def masked_crc32c(data: bytes) -> int:
    """The CRC32C of `data`, rotated and shifted as TFRecord files hold it."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """One record as it stands in a file, `OVERHEAD` bytes longer than `data`."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _FOOT.pack(masked_crc32c(length)), data, _FOOT.pack(masked_crc32c(data))))


def begins_frame(head: bytes) -> bool:
    """Whether a record may begin with these `HEAD_BYTES` bytes: a length and its checksum."""
    return len(head) == HEAD_BYTES and _HEAD.unpack(head)[1] == masked_crc32c(head[:8])


def read_frames(
    file: BinaryIO, *, first_record: int = 0, on_fault: Optional[Callable[[RecordFault], None]] = None
) -> Iterator[Tuple[int, bytes]]:
    """The records from where the file stands: the offset of each frame, and its data.

    Args:
      file: has `read`, `seek` and `tell`.
      first_record: the number of the record that the file stands at, for what a fault says.
      on_fault: takes a fault, which otherwise is raised. Afterwards the next record is read; behind a 'truncated' or
        'length checksum' there is none.

    Raises:
      RecordFault: for the first frame that is damaged.
    """
    offset, end = _here_and_end(file)
    record = first_record
    while offset < end:
        try:
            length = _read_head(file, record=record, offset=offset, end=end)
            data = file.read(length)
            foot = file.read(_FOOT.size)
            if len(data) != length or len(foot) != _FOOT.size:
                raise RecordFault(record=record, offset=offset, reason=TRUNCATED)
            if _FOOT.unpack(foot)[0] != masked_crc32c(data):
                raise RecordFault(record=record, offset=offset, reason=DATA_CHECKSUM)
            yield offset, data
        except RecordFault as fault:
            if on_fault is None:
                raise
            on_fault(fault)
            if fault.reason != DATA_CHECKSUM:
                return
        offset += length + OVERHEAD
        record += 1


def frame_spans(file: BinaryIO) -> Iterator[Tuple[int, int]]:
    """Offset and length of the data of each record, without reading the data.

    Raises:
      RecordFault: for a frame whose end cannot be found.
    """
    offset, end = _here_and_end(file)
    record = 0
    while offset < end:
        length = _read_head(file, record=record, offset=offset, end=end)
        yield offset, length
        offset += length + OVERHEAD
        record += 1
        file.seek(offset)


def count_frames(file: BinaryIO) -> int:
    """How many records there are from where the file stands, without reading their data.

    Raises:
      RecordFault: for a frame whose end cannot be found. The checksums of data are not looked at.
    """
    return sum(1 for _ in frame_spans(file))


def _here_and_end(file: BinaryIO) -> Tuple[int, int]:
    here = file.tell()
    file.seek(0, io.SEEK_END)
    end = file.tell()
    file.seek(here)
    return here, end


def _read_head(file: BinaryIO, *, record: int, offset: int, end: int) -> int:
    """The length of the data of the frame that the file stands at."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise RecordFault(record=record, offset=offset, reason=TRUNCATED)
    if not begins_frame(head):
        raise RecordFault(record=record, offset=offset, reason=LENGTH_CHECKSUM)
    length, _ = _HEAD.unpack(head)
    if offset + OVERHEAD + length > end:
        raise RecordFault(record=record, offset=offset, reason=TRUNCATED)
    return length
