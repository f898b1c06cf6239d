"""From the bytes of a picture to its pixels, and no more of them than are used."""

from typing import Callable, Optional

import tensorflow as tf

# From a picture's [height, width] to its part [y, x, height, width], all int32.
ChooseWindow = Callable[[tf.Tensor], tf.Tensor]

_JPEG_END = b"\xff\xd9"
_KINDS = ((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG", "PNG"), (b"GIF8", "GIF"), (b"BM", "BMP"))


def decode_window(encoded: tf.Tensor, choose: ChooseWindow) -> tf.Tensor:
    """A part of a picture: JPEG, PNG, GIF (its first frame) or BMP; in grey, colour, CMYK, with a palette or alpha.

    Of a JPEG, the size is read from its header and only the part is decoded. At the edge of the part its colours may
    differ by a few levels from those in the whole, since JPEG interpolates colour from the neighbouring pixels.

    Args:
      encoded: the file's bytes, a string scalar.
      choose: called while tracing, with the [height, width] of the picture; returns the part that is wanted.

    Returns:
      uint8 of shape [height, width, 3], red, green, blue from 0 to 255. Alpha is left out.

    Raises:
      tf.errors.InvalidArgumentError: when it runs, where the bytes are no such picture; `check_image` says why.
    """

    def of_jpeg() -> tf.Tensor:
        size = tf.io.extract_jpeg_shape(encoded)[:2]
        return tf.io.decode_and_crop_jpeg(encoded, choose(size), channels=3)

    def of_others() -> tf.Tensor:
        image = _decode_others(encoded)
        y, x, height, width = tf.unstack(choose(tf.shape(image)[:2]))
        return image[y : y + height, x : x + width]

    image = tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_others)
    image.set_shape([None, None, 3])
    return image


def decode_whole(encoded: tf.Tensor) -> tf.Tensor:
    """All of a picture, otherwise as `decode_window`."""
    return decode_window(encoded, lambda size: tf.concat([[0, 0], size], axis=0))


def is_picture(encoded: tf.Tensor) -> tf.Tensor:
    """Whether bytes, a string scalar, begin as one of the kinds that are decoded; a boolean scalar."""
    begins = [tf.equal(tf.strings.substr(encoded, 0, len(start)), start) for start, _ in _KINDS]
    return tf.reduce_any(begins)


def _decode_others(encoded: tf.Tensor) -> tf.Tensor:
    """All of what is no JPEG; uint8 of shape [height, width, 3]."""

    def of_png_or_gif() -> tf.Tensor:
        return tf.io.decode_image(encoded, channels=3, expand_animations=False)

    return tf.cond(tf.equal(tf.strings.substr(encoded, 0, 2), b"BM"), lambda: _decode_bmp(encoded), of_png_or_gif)


def _decode_bmp(encoded: tf.Tensor) -> tf.Tensor:
    """All of a BMP of 8, 24 or 32 bits; uint8 of shape [height, width, 3]."""
    # This decoder alone converts nothing: it gives 1, 3 or 4 channels, and of 8 bits the numbers of colours.
    image = tf.io.decode_bmp(encoded, channels=0)

    def with_palette() -> tf.Tensor:
        # The file: where the pixels begin at byte 10, the header's length at 14; between the two, colours as BGR0.
        stored = tf.io.decode_raw(encoded, tf.uint8)
        pixels, header = (tf.bitcast(stored[at : at + 4], tf.int32) for at in (10, 14))
        colours = tf.reshape(stored[14 + header : pixels], [-1, 4])[:, 2::-1]
        return tf.gather(colours, tf.cast(image[..., 0], tf.int32))

    return tf.cond(tf.shape(image)[-1] == 1, with_palette, lambda: image[..., :3])


def check_image(encoded: bytes) -> Optional[str]:
    """Why the bytes are no picture that can be decoded whole, in one line; None where they are one."""
    if not encoded:
        return "it is empty (0 bytes)"
    kind = next((name for start, name in _KINDS if encoded.startswith(start)), None)
    if kind is None:
        return f"it is no JPEG, PNG, GIF or BMP: it begins with {encoded[:8]!r}"
    try:
        with tf.init_scope(), tf.device("CPU:0"):
            decode_whole(tf.constant(encoded))
    except tf.errors.InvalidArgumentError:
        # The decoders' own words are the same for all of their reasons.
        if kind == "JPEG" and not encoded.rstrip(b"\0").endswith(_JPEG_END):
            return f"it is a truncated JPEG: its {len(encoded)} bytes lack the end marker"
        return f"it is a {kind} of {len(encoded)} bytes that is truncated, corrupted or of a kind that is not read"
    return None
