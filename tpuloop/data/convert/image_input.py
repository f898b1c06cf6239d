"""A folder of images with a subfolder for each class."""

import hashlib
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.convert.image_header import BadImage, read_header
from tpuloop.data.convert.input_files import opened_input
from tpuloop.data.convert.input_kind import Batch, Contents, Input, InputKind, OnBad
from tpuloop.data.records import files
from tpuloop.data.records.example import encode
from tpuloop.data.records.manifest import EXAMPLES, PACKED, Feature
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import is_remote, join

_ENDINGS = (".jpg", ".jpeg", ".png")
_BATCH_BYTES, _BATCH_IMAGES = 4 << 20, 256
_ASKED = 100  # Files in a store, for about how long all are.
_LABEL = "image/class/label"
_FEATURES = (
    Feature("image/class/label", "int64"),
    Feature("image/class/text", "bytes"),
    Feature("image/colorspace", "bytes"),
    Feature("image/encoded", "bytes"),
    Feature("image/filename", "bytes"),
    Feature("image/format", "bytes"),
    Feature("image/height", "int64"),
    Feature("image/width", "int64"),
)


class ImageKind(InputKind):
    """JPEG and PNG files, kept as they are, or decoded to one size."""

    name = "images"
    summary = "a folder of JPEG or PNG images with a subfolder for each class"
    flags = ("image_size",)

    def recognises(self, path: str) -> bool:
        """A folder."""
        # A store is asked only where the name does not tell.
        return files.is_folder(path) if not is_remote(path) or not os.path.splitext(path)[1] else False

    def define_flags(self) -> None:
        """What becomes of a picture."""
        from absl import flags

        flags.DEFINE_integer(
            "image_size",
            None,
            "Images: decode, resize to this height and width, and pack them.",
            lower_bound=1,
        )

    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Lists the files, in an order that mixes the classes."""
        del workers
        if len(paths) > 1:
            raise UsageError(f"images: give one folder with a subfolder for each class, not {len(paths)}")
        (folder,) = paths
        if not files.is_folder(folder):
            raise UsageError(f"{folder} is no folder: give one with a subfolder of images for each class")
        names, others, state = _listed(folder)
        if others and options["on_bad_record"] == "fail":
            more = f" (nor are {len(others) - 1} more)" if len(others) > 1 else ""
            raise UsageError(
                f"{join(folder, others[0])} is no JPEG or PNG file by its name{more}: move it away, or leave "
                "such files out (--on_bad_record=skip)"
            )
        names += others
        keys = [_key(options["seed"], name) for name in names]
        order = np.lexsort([np.arange(len(names)), np.array(keys, np.uint64)])
        classes = sorted({name.split("/", 1)[0] for name in names})
        return ImageInput(
            folder=folder,
            names=[names[index] for index in order],
            classes=classes,
            size=options["image_size"],
            source=state,
        )


class ImageInput(Input):
    """Listed files.

    Args:
      folder: of the classes' folders.
      names: of the files, CLASS/NAME, in the order of the records.
      classes: in the order of their numbers.
      size: pixels of a side to decode to; None to keep the files' bytes.
      source: what changes when a file does.
    """

    def __init__(
        self,
        *,
        folder: str,
        names: Sequence[str],
        classes: Sequence[str],
        size: Optional[int],
        source: Mapping[str, Any],
    ):
        self._folder, self._classes, self._size, self._source = folder, tuple(classes), size, source
        # As bytes, a tenth of what a list of a million strings takes.
        encoded = [os.fsencode(name) for name in names]
        self._names = b"".join(encoded)
        self._ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)

    @property
    def contents(self) -> Contents:
        """Examples in the layout of ImageNet's files, or packed pixels; a unit is an image."""
        size = self._size
        made: Dict[str, Any] = {
            "order": "by a hash of the seed and the file's name",
            "first_class": 1 if size is None else 0,
        }
        if size is not None:
            made["resized"] = "bilinear, without keeping the shape"
        return Contents(
            features=_FEATURES if size is None else (Feature("x", "uint8", (size, size, 3)), Feature("y", "int64")),
            kind=EXAMPLES if size is None else PACKED,
            units=len(self._ends),
            bytes=self._source["bytes"] if size is None else len(self._ends) * size * size * 3,
            unit="images",
            label=_LABEL if size is None else "y",
            classes=self._classes,
            made=made,
            source=self._source,
        )

    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """Batches of a few megabytes of files."""
        numbers = {name: number for number, name in enumerate(self._classes)}
        decoder = None if self._size is None else _Decoder(self._size)
        at: List[int] = []
        found: List[Any] = []
        labels: List[int] = []
        units = size = 0
        for index in range(start, stop):
            name = self._name(index)
            path = join(self._folder, name)
            label = numbers[name.split("/", 1)[0]]
            with opened_input(path) as file:
                data = file.read()
            units += 1
            try:
                found.append(self._record(data, name, label) if decoder is None else decoder.decode(data))
                at.append(index)
                labels.append(label)
                size += len(data)
            except BadImage as error:
                on_bad(f"{path}: {error}: mend or remove it, or leave such files out (--on_bad_record=skip)")
            if units >= _BATCH_IMAGES or size >= _BATCH_BYTES or index == stop - 1:
                yield self._batch(at, found, labels, units)
                at, found, labels, units, size = [], [], [], 0, 0

    def _name(self, index: int) -> str:
        return os.fsdecode(self._names[int(self._ends[index - 1]) if index else 0 : int(self._ends[index])])

    def _record(self, data: bytes, name: str, label: int) -> bytes:
        header = read_header(data)
        return encode(
            {
                "image/class/label": label + 1,  # 0 is the background, in ImageNet's files.
                "image/class/text": os.fsencode(self._classes[label]),
                "image/colorspace": header.colorspace.encode(),
                "image/encoded": data,
                "image/filename": os.fsencode(name),
                "image/format": header.format.encode(),
                "image/height": header.height,
                "image/width": header.width,
            }
        )

    def _batch(self, at: List[int], found: List[Any], labels: List[int], units: int) -> Batch:
        numbers = np.array(at, np.int64)
        if self._size is None:
            return Batch(numbers=numbers, records=found, units=units)
        pixels = np.zeros([len(found), self._size, self._size, 3], np.uint8)
        for index, image in enumerate(found):
            pixels[index] = image
        return Batch(numbers=numbers, columns={"x": pixels, "y": np.array(labels, np.int64)}, units=units)


class _Decoder:
    """Decodes with TensorFlow, which it loads; one thread, as each worker has its core.

    Args:
      size: pixels of a side.
    """

    def __init__(self, size: int):
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # Each worker would warn that it found no GPU.
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # The accelerator is not for this.
        import tensorflow as tf

        self._tf, self._size = tf, size
        if not tf.config.threading.get_intra_op_parallelism_threads():
            try:
                tf.config.threading.set_intra_op_parallelism_threads(1)
                tf.config.threading.set_inter_op_parallelism_threads(1)
            except RuntimeError:
                pass  # It runs already.

    def decode(self, data: bytes) -> np.ndarray:
        """uint8 [size, size, 3].

        Raises:
          BadImage: where it cannot be decoded.
        """
        tf = self._tf
        read_header(data)
        try:
            image = tf.io.decode_image(data, channels=3, expand_animations=False)
        except tf.errors.InvalidArgumentError as error:
            raise BadImage(f"it cannot be decoded: {first_line(error)}") from error
        resized = tf.image.resize(image, [self._size, self._size], method="bilinear")
        return np.clip(np.rint(resized.numpy()), 0, 255).astype(np.uint8)


def _listed(folder: str) -> Tuple[List[str], List[str], Dict[str, Any]]:
    """Names of the images, those of other files, and what changes when a file does.

    Hidden files, which systems leave in folders, are no part of the data.
    """
    classes = [name for name in files.names_in(folder) if not name.startswith(".") and _is_class(folder, name)]
    if not classes:
        raise UsageError(f"{folder} has no subfolders: put the images of each class into one with its name")
    images: List[str] = []
    others: List[str] = []
    digest = hashlib.blake2b(digest_size=16)
    for name in classes:
        before = len(images)
        for below in files.files_below(join(folder, name)):
            (images if below.lower().endswith(_ENDINGS) else others).append(f"{name}/{below}")
        if len(images) == before:
            raise UsageError(f"{join(folder, name)} holds no images: remove the folder, or fill it")
    found = images + others
    if is_remote(folder):
        # To ask for the length of each is a request for each.
        asked = found[:: -(-len(found) // _ASKED)]
        total = sum(files.size_of(join(folder, name)) for name in asked) * len(found) // len(asked)
        digest.update("\n".join(found).encode())
    else:
        total = 0
        for name in found:
            state = os.stat(os.path.join(folder, name))
            total += state.st_size
            digest.update(os.fsencode(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n"))
    return images, others, {"folder": folder, "files": len(found), "bytes": total, "digest": digest.hexdigest()}


def _is_class(folder: str, name: str) -> bool:
    return not name.lower().endswith(_ENDINGS) and files.is_folder(join(folder, name))


def _key(seed: int, name: str) -> int:
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")
