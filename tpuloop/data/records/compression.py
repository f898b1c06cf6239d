"""How a TFRecord file is compressed, told by its first bytes: its records do not say."""

from tpuloop.data.records.framing import HEAD_BYTES, begins_frame

PLAIN, GZIP, ZLIB = "", "GZIP", "ZLIB"

HEAD = HEAD_BYTES  # Bytes to look at.


def compression_by(head: bytes) -> str:
    """PLAIN, GZIP or ZLIB, by the first `HEAD` bytes of a file, or all where it has fewer."""
    # A length may begin as a compressed stream does (a record of 376 bytes as ZLIB's), but then has its checksum.
    if begins_frame(head):
        return PLAIN
    if head[:2] == b"\x1f\x8b":
        return GZIP
    # ZLIB's header is a multiple of 31.
    if len(head) >= 2 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0:
        return ZLIB
    return PLAIN
