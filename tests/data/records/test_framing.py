"""TFRecord framing: the bytes of one record by hand, TensorFlow's reader and writer, and damage of all kinds."""

import io

import pytest

from tpuloop.data.records.framing import RecordFault, count_frames, frame, frame_spans, read_frames

# A file as bytes: offsets 0, 19, 35 (16 bytes around data of 3, 0 and 5 bytes).
RECORDS = [b"abc", b"", b"12345"]
FILE = b"".join(map(frame, RECORDS))


def faults(data):
    """All faults of a file, and the data that is found."""
    found = []
    data = [data for _, data in read_frames(io.BytesIO(data), on_fault=found.append)]
    return [(fault.record, fault.offset, fault.reason) for fault in found], data


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_one_record_byte_by_byte():
    # CRC32C("123456789") is 0xE3069283 (RFC 3720's check value). Rotated right by 15 bits, plus 0xA282EAD8.
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    foot = ((rotated + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
    framed = frame(b"123456789")
    assert framed[:8] == b"\x09\0\0\0\0\0\0\0"
    assert framed[12:21] == b"123456789" and framed[21:] == foot


def test_reading_gives_offsets_and_data():
    assert list(read_frames(io.BytesIO(FILE))) == [(0, b"abc"), (19, b""), (35, b"12345")]
    file = io.BytesIO(FILE)
    file.seek(19)
    assert list(read_frames(file)) == [(19, b""), (35, b"12345")]
    assert list(read_frames(io.BytesIO())) == []


def test_counting_reads_no_data():
    class NoLongReads(io.BytesIO):
        def read(self, size=-1):
            assert 0 <= size <= 12
            return super().read(size)

    big = frame(b"x" * 1000) * 7
    assert count_frames(NoLongReads(big)) == 7
    assert list(frame_spans(NoLongReads(FILE))) == [(0, 3), (19, 0), (35, 5)]


def test_both_ways_with_tensorflow(tmp_path):
    import tensorflow as tf

    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    records = [b"", b"a", bytes(range(256)) * 50]
    with open(ours, "wb") as file:
        file.write(b"".join(map(frame, records)))
    with tf.io.TFRecordWriter(theirs) as writer:
        for record in records:
            writer.write(record)
    assert [record.numpy() for record in tf.data.TFRecordDataset(ours)] == records
    with open(theirs, "rb") as file:
        assert [data for _, data in read_frames(file)] == records
    with open(ours, "rb") as one, open(theirs, "rb") as other:
        assert one.read() == other.read()
    with tf.io.gfile.GFile(ours, "rb") as file:
        assert [data for _, data in read_frames(file)] == records
    with tf.io.gfile.GFile(ours, "rb") as file:
        assert count_frames(file) == 3


@pytest.mark.parametrize("length", [*range(36, 56), 20, 34, 1])
def test_a_truncated_file_is_found_wherever_it_ends(length):
    record, offset = {True: (2, 35), False: (1, 19)}[length > 35] if length > 19 else (0, 0)
    found, data = faults(FILE[:length])
    assert found == [(record, offset, "truncated")] and data == RECORDS[:record]
    with pytest.raises(RecordFault, match=f"record {record} at byte {offset}: the file ends inside it"):
        count_frames(io.BytesIO(FILE[:length]))


@pytest.mark.parametrize("at", range(len(FILE)))
def test_any_flipped_bit_is_found(at):
    begins = [0, 19, 35, 56]
    record = sum(at >= begin for begin in begins) - 1
    in_head = at - begins[record] < 12
    found, data = faults(flipped(FILE, at))
    assert found == [(record, begins[record], "length checksum" if in_head else "data checksum")]
    # Behind a wrong length nothing can be found; a record with wrong data is passed over.
    assert data == (RECORDS[:record] if in_head else RECORDS[:record] + RECORDS[record + 1 :])


def test_a_fault_is_raised_where_nobody_takes_it():
    with pytest.raises(RecordFault, match="record 7 at byte 19: the checksum of its data is wrong"):
        file = io.BytesIO(flipped(FILE, 34))
        file.seek(19)
        list(read_frames(file, first_record=7))
