"""Small record files whose examples say their own numbers, their streams read whole, and pictures."""

import base64
import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.lanes import RecordFile
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.framing import OVERHEAD, frame
from tpuloop.data.records.manifest import Feature
from tpuloop.data.records.packing import pack
from tpuloop.data.shard import WHOLE

FEATURES = (Feature("id", "int32"), Feature("twice", "int64", (2,)), Feature("odd", "bool"))


def _columns(ids):
    ids = np.asarray(ids)
    twice = np.stack([ids * 2, -ids * 2], axis=1).astype(np.int64)
    return {"id": ids.astype(np.int32), "twice": twice, "odd": ids % 2 == 1}


class Files:
    """Writes files into a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.written = 0

    def packed(self, counts, *, per_record, **options):
        """A packed source of files that hold so many examples each."""
        files, first = [], 0
        for count in counts:
            ids = range(first, first + count)
            records = [pack(_columns(ids[start : start + per_record])) for start in range(0, count, per_record)]
            files.append(RecordFile(self._write(records), len(records), count))
            first += count
        return PackedSource(files, features=FEATURES, examples_per_record=per_record, **options)

    def records(self, counts, *, text=lambda number: b"%d" % number, compression="", **options):
        """A source of one example a record, in files that hold so many each."""
        files, first = [], 0
        for count in counts:
            records = [text(number) for number in range(first, first + count)]
            files.append(RecordFile(self._write(records, compression), count, count))
            first += count
        return RecordSource(files, compression=compression, **options)

    def _write(self, records, compression=""):
        path = os.path.join(str(self.folder), f"part-{self.written:03d}.tfrecord")
        self.written += 1
        if compression:
            with tf.io.TFRecordWriter(path, compression) as writer:
                for record in records:
                    writer.write(record)
        else:
            with open(path, "wb") as file:
                file.write(b"".join(map(frame, records)))
        return path


@pytest.fixture
def files(tmp_path):
    """`files.packed(...)`, `files.records(...)`: sources over new files of the test's own."""
    return Files(tmp_path)


def _ids(examples):
    """The numbers that examples of any of these sources say they have."""
    if isinstance(examples, dict):
        ids = examples["id"].numpy()
        np.testing.assert_array_equal(examples["twice"].numpy(), np.stack([ids * 2, -ids * 2], axis=1))
        np.testing.assert_array_equal(examples["odd"].numpy(), ids % 2 == 1)
        return ids
    examples = examples.numpy()
    return examples.astype(np.int64) if examples.dtype == object else examples


def _read_ids(source, count, *, batch_size=1, seed=0, position=0, shard=WHOLE):
    """The ids of so many global examples, or of all of one host's share of them; the origins must say the same."""
    numbered = source.numbered_batches(batch_size=batch_size, seed=seed, position=position, shard=shard)
    ids = []
    for examples, origin in numbered.take(-(-count // batch_size)):
        ids.append(_ids(examples))
        assert len(ids[-1]) == batch_size // shard.count
        np.testing.assert_array_equal(origin.numbers, ids[-1])
        if shard == WHOLE:
            start = position + (len(ids) - 1) * batch_size
            np.testing.assert_array_equal(origin.epochs, (start + np.arange(batch_size)) // source.size)
    return np.concatenate(ids)[: count if shard == WHOLE else None].tolist()


@pytest.fixture(scope="session")
def read_ids():
    """`read_ids(source, count, batch_size=..., seed=..., position=..., shard=...)`."""
    return _read_ids


@pytest.fixture(scope="session")
def flip_byte():
    """`flip_byte(path, record, part)`: damages the 'data' or the 'length' of a record."""

    def flip(path, record, part="data"):
        with open(path, "r+b") as file:
            for _ in range(record):
                length = int.from_bytes(file.read(8), "little")
                file.seek(length + OVERHEAD - 8, os.SEEK_CUR)
            file.seek(0 if part == "length" else 12, os.SEEK_CUR)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x40]))

    return flip


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
