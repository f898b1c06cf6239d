"""Pictures made for tests, as the fixture `pictures`."""

import base64

import numpy as np
import pytest
import tensorflow as tf


class Pictures:
    # 8 x 6 pixels of (200, 100, 50), saved by Pillow: what TensorFlow itself cannot write.
    CMYK_JPEG = base64.b64decode(
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAIBgYHBgUIBwcHCQkICgwUDQwLCwwZEhMPFB0aHx4dGhwcICQuJyAiLCMcHCg3KSwwMTQ0NB8nOT04"
        "MjwuMzQy/8AAFAgABgAIBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAAB"
        "fQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hp"
        "anN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5"
        "+v/aAA4EQwBNAFkASwAAPwD0isOvMa9/r//Z"
    )

    @staticmethod
    def gradient(height, width):
        """uint8 [height, width, 3] whose red grows from left to right and green from top to bottom, 0 to 255."""
        y, x = np.mgrid[:height, :width].astype(np.float64)
        red, green = x * 255 / max(1, width - 1), y * 255 / max(1, height - 1)
        return np.rint(np.stack([red, green, np.full_like(red, 128)], axis=-1)).astype(np.uint8)

    @staticmethod
    def jpeg(image, **options):
        """The bytes of a JPEG with as little loss as there can be."""
        return tf.io.encode_jpeg(image, quality=100, chroma_downsampling=False, **options).numpy()

    @staticmethod
    def png(image):
        return tf.io.encode_png(image).numpy()

    @staticmethod
    def bmp(image, *, palette=None):
        """A BMP of uint8 [height, width, 3 or 4], or of [height, width] with a palette [colours, 3]."""
        height, width = image.shape[:2]
        channels = 1 if image.ndim == 2 else image.shape[2]
        colours = b"" if palette is None else np.pad(palette[:, ::-1], [(0, 0), (0, 1)]).astype(np.uint8).tobytes()
        pixels = image if image.ndim == 2 else np.concatenate([image[..., 2::-1], image[..., 3:]], axis=-1)
        rows = pixels[::-1].reshape(height, -1)
        rows = np.pad(rows, [(0, 0), (0, -rows.shape[1] % 4)]).tobytes()

        def number(value, size=4):
            return int(value).to_bytes(size, "little")

        offset = 54 + len(colours)
        file = b"BM" + number(offset + len(rows)) + number(0) + number(offset)
        header = number(40) + number(width) + number(height) + number(1, 2) + number(8 * channels, 2) + number(0)
        return file + header + number(len(rows)) + number(2835) * 2 + number(len(colours) // 4) * 2 + colours + rows

    @staticmethod
    def gif(colours):
        """A GIF of one 1 x 1 frame for each (red, green, blue)."""
        parts = [b"GIF89a", bytes([1, 0, 1, 0, 0x80, 0, 0]), bytes(colours[0]), bytes(3)]
        for colour in colours:
            # Its own palette of two colours; then LZW of 2-bit codes: clear, colour 0, end.
            parts += [
                bytes([0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0x80]),
                bytes(colour),
                bytes(3),
                bytes([2, 2, 0x44, 0x01, 0]),
            ]
        return b"".join(parts) + b";"

    @staticmethod
    def record(**features):
        """A serialized tf.train.Example; a double underscore in a name stands for a slash."""
        kinds = {
            bytes: lambda value: tf.train.Feature(bytes_list=tf.train.BytesList(value=value)),
            int: lambda value: tf.train.Feature(int64_list=tf.train.Int64List(value=value)),
            float: lambda value: tf.train.Feature(float_list=tf.train.FloatList(value=value)),
        }
        made = {}
        for name, value in features.items():
            values = value if isinstance(value, list) else [value]
            made[name.replace("__", "/")] = kinds[type(values[0])](values)
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


@pytest.fixture(scope="session")
def pictures():
    return Pictures
