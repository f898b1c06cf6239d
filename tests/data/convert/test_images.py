"""Folders of images: kept as they are, or decoded and resized; and files that are no images."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.convert.image_header import BadImage, read_header
from tpuloop.data.records.example import decode
from tpuloop.errors import UsageError


def picture(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, [height, width, channels], np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Three cats, two dogs, of which one has a wrong ending and one lies deeper; and a hidden file."""
    place = tmp_path / "pets"
    files = {
        "cat/1.png": tf.io.encode_png(picture(4, 6)),
        "cat/2.jpg": tf.io.encode_jpeg(picture(9, 5)),
        "cat/3.png": tf.io.encode_png(picture(2, 3, 1)),
        "dog/1.JPEG": tf.io.encode_png(picture(7, 7)),
        "dog/more/2.jpeg": tf.io.encode_jpeg(picture(8, 8, 1), format="grayscale"),
    }
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data.numpy())
    (place / "dog/.DS_Store").write_bytes(b"x")
    return place


def test_files_are_kept_in_the_layout_of_imagenet(folder, scan, read):
    data = scan("images", folder)
    assert data.contents.classes == ("cat", "dog") and data.contents.label == "image/class/label"
    examples = {bytes(e["image/filename"][0]).decode(): e for e in map(decode, read(data)[1])}
    assert {
        name: (int(e["image/class/label"]), e["image/format"][0], int(e["image/height"]), int(e["image/width"]))
        for name, e in examples.items()
    } == {
        "cat/1.png": (1, b"PNG", 4, 6),
        "cat/2.jpg": (1, b"JPEG", 9, 5),
        "cat/3.png": (1, b"PNG", 2, 3),
        "dog/1.JPEG": (2, b"PNG", 7, 7),
        "dog/more/2.jpeg": (2, b"JPEG", 8, 8),
    }
    for name, example in examples.items():
        assert example["image/encoded"][0] == (folder / name).read_bytes()
        assert example["image/class/text"][0].decode() == name.split("/")[0]
        grey = name in ("cat/3.png", "dog/more/2.jpeg")
        assert example["image/colorspace"][0] == (b"grayscale" if grey else b"RGB")
    assert set(examples["cat/1.png"]) == {feature.name for feature in data.contents.features}


def test_the_order_is_mixed_by_the_seed(folder, scan, read):
    def order(seed):
        return [decode(record)["image/filename"][0] for record in read(scan("images", folder, seed=seed))[1]]

    assert order(0) == order(0) and len({tuple(order(seed)) for seed in range(10)}) > 5


def test_decoded_and_resized(folder, scan, read):
    data = scan("images", folder, image_size=4)
    assert [(f.name, f.dtype, f.shape) for f in data.contents.features] == [
        ("x", "uint8", (4, 4, 3)),
        ("y", "int64", ()),
    ]
    names = [decode(record)["image/filename"][0].decode() for record in read(scan("images", folder))[1]]
    _, columns = read(data)
    assert columns["y"].tolist() == [int(name.startswith("dog")) for name in names]
    for name, pixels in zip(names, columns["x"]):
        decoded = tf.io.decode_image((folder / name).read_bytes(), channels=3)
        expected = tf.image.resize(decoded, [4, 4]).numpy()
        assert np.abs(pixels - expected).max() <= 0.5
    grey = columns["x"][names.index("cat/3.png")]
    assert (grey[..., 0] == grey[..., 2]).all()


def test_files_that_are_no_images(folder, scan, read):
    (folder / "cat/notes.txt").write_text("about cats")
    with pytest.raises(UsageError, match="cat/notes.txt is no JPEG or PNG file by its name: move it away, or leave"):
        scan("images", folder)
    (folder / "dog/4.png").write_bytes((folder / "cat/1.png").read_bytes()[:-9])
    (folder / "dog/5.jpg").write_bytes(b"")
    bad = []
    numbers, records = read(scan("images", folder, on_bad="skip"), bad=bad)
    assert len(records) == 5 and len(numbers) == 5
    told = {text.split(": ")[0][len(str(folder)) + 1 :]: text.split(": ")[1] for text in bad}
    assert told == {
        "cat/notes.txt": "it is neither JPEG nor PNG",
        "dog/4.png": "the PNG file ends too early",
        "dog/5.jpg": "it is empty",
    }


def test_pixels_that_cannot_be_decoded(folder, scan, read):
    data = bytearray((folder / "cat/2.jpg").read_bytes())
    at = data.index(b"\xff\xda")
    (folder / "cat/2.jpg").write_bytes(data[: at + 2] + b"\0\0" + data[at + 4 :])
    bad = []
    read(scan("images", folder, image_size=4, on_bad="skip"), bad=bad)
    (text,) = bad
    assert "cat/2.jpg: it cannot be decoded: " in text and "\n" not in text


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda place: None, "has no subfolders: put the images of each class into one with its name"),
        (lambda place: (place / "cat").mkdir(), "cat holds no images: remove the folder, or fill it"),
        (lambda place: (place / "1.png").write_bytes(b"x"), "has no subfolders"),
    ],
)
def test_folders_without_images(tmp_path, scan, make, message):
    make(tmp_path)
    with pytest.raises(UsageError, match=message):
        scan("images", tmp_path)


@pytest.mark.parametrize("name", ["cat/1.png", "cat/2.jpg"])
def test_headers_of_damaged_files(folder, name):
    data = (folder / name).read_bytes()
    header = read_header(data)
    for length in range(len(data)):
        with pytest.raises(BadImage):
            read_header(data[:length])
    for at in range(0, len(data), 3):
        try:
            assert read_header(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        except BadImage:
            continue
        assert name == "cat/2.jpg" or header is None  # Every byte of a PNG file has a checksum.
