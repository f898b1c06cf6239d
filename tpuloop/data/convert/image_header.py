"""What the bytes of a JPEG or PNG file say of the picture, and whether they are all there. Decodes nothing."""

import struct
import zlib
from typing import NamedTuple

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_PNG_CHANNELS = {0: "grayscale", 2: "RGB", 3: "RGB", 4: "grayscale", 6: "RGB"}  # By colour type; 3 is a palette.
_JPEG_CHANNELS = {1: "grayscale", 3: "RGB", 4: "CMYK"}
# Start-of-frame markers; the numbers between them mark other things.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xDA)}


class BadImage(ValueError):
    """A file is no whole JPEG or PNG image; says what is wrong."""


class ImageHeader(NamedTuple):
    """A picture.

    Attributes:
      format: "JPEG" or "PNG", by its bytes, whatever its name says.
      height: in pixels.
      width: in pixels.
      colorspace: "RGB", "grayscale" or "CMYK".
    """

    format: str
    height: int
    width: int
    colorspace: str


def read_header(data: bytes) -> ImageHeader:
    """The header of an image file.

    Args:
      data: all bytes of the file.

    Raises:
      BadImage: for other files, damaged headers, and files that end too early.
    """
    if data.startswith(_PNG):
        return _read_png(data)
    if data.startswith(_JPEG):
        return _read_jpeg(data)
    raise BadImage("it is empty" if not data else "it is neither JPEG nor PNG")


def _read_png(data: bytes) -> ImageHeader:
    """All chunks have checksums, which are compared."""
    at, header = len(_PNG), None
    while True:
        if at + 12 > len(data):
            raise BadImage("the PNG file ends too early")
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if end + 4 > len(data):
            raise BadImage("the PNG file ends too early")
        if zlib.crc32(memoryview(data)[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise BadImage("a checksum in the PNG file is wrong")
        if header is None:
            if kind != b"IHDR" or length != 13:
                raise BadImage("the PNG file does not begin with its header")
            width, height, _, colour = struct.unpack_from(">IIBB", data, at + 8)
            if colour not in _PNG_CHANNELS or not width or not height:
                raise BadImage("the header of the PNG file is damaged")
            header = ImageHeader("PNG", height, width, _PNG_CHANNELS[colour])
        if kind == b"IEND":
            return header
        at = end + 4


def _read_jpeg(data: bytes) -> ImageHeader:
    """Walks from marker to marker up to the frame's; the end marker must be there too."""
    if data.rfind(b"\xff\xd9") < 0:
        raise BadImage("the JPEG file ends too early")
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            raise BadImage("the header of the JPEG file is damaged")
        marker = data[at + 1]
        if marker == 0xFF:  # Padding.
            at += 1
            continue
        if marker in _WITHOUT_LENGTH:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _FRAMES and at + 10 <= len(data):
            height, width, components = struct.unpack_from(">HHB", data, at + 5)
            if components not in _JPEG_CHANNELS or not width or not height:
                break
            return ImageHeader("JPEG", height, width, _JPEG_CHANNELS[components])
        if marker == 0xDA or length < 2:
            break
        at += 2 + length
    raise BadImage("the header of the JPEG file is damaged")
