"""Data sets of pictures that lie in files of one's own."""

import hashlib
from typing import TYPE_CHECKING, Callable, Optional, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.images.decode import is_picture
from tpuloop.data.images.folder import ImageFolder, list_image_folder
from tpuloop.data.images.preprocess import eval_image, train_image, whole_image
from tpuloop.data.images.small import random_crop_and_flip
from tpuloop.data.source import Source

if TYPE_CHECKING:
    from tpuloop.data.sample import DataSets

# `(encoded, seed)` of one example to what a model is given of it.
Preprocess = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

AUGMENTATIONS = ("crop", "shift", "none")
_DTYPES = ("float32", "bfloat16")
_HELD_OUT_FOLDERS = ("val", "validation", "test")


def images(
    *, path: str, size: int = 224, augment: str = "crop", held_out: float = 0.1, dtype: str = "float32"
) -> "DataSets":
    """A folder of pictures that has a subfolder for each class: `path`/CLASS/PICTURE.

    Where there is `path`/train with such subfolders, they are what is trained on, and those of `path`/val, validation
    or test are held out. Otherwise a share is held out, each picture by a hash of its class and name: the same ones
    in every run, wherever the folder lies and whatever is added to it.

    `x` is [size, size, 3] as `preprocess.normalise` gives it, `y` the number of the class by its name as int64.

    Args:
      path: of any file system that TensorFlow knows.
      size: height and width of what a model is given, in pixels.
      augment: of what is trained on. "crop" for photographs, a random part of each (`train_image`); "shift" for
        pictures of about that size, moved by up to an eighth of it and mirrored; "none" as in evaluation. What is held
        out gives its middle (`eval_image`) with "crop", else the whole picture resized to a square.
      held_out: the share to hold out where no folder says so; 0 for none.
      dtype: of `x`, "float32" or "bfloat16".

    Raises:
      DataError: for a folder without classes or pictures, or an argument out of range.
    """
    if isinstance(held_out, bool) or not isinstance(held_out, (int, float)) or not 0 <= held_out < 1:
        raise DataError(f"held_out must be a share of at least 0 and below 1; it is {held_out!r}")
    of_train, of_evaluation = _preprocessing(size=size, augment=augment, dtype=dtype)
    train, evaluation = _folders(path, held_out=held_out)
    held = "none held out" if evaluation is None else f"{len(evaluation.files):,} held out"
    notes = sorted({*train.notes, *(evaluation.notes if evaluation else ())})
    return _data_sets(
        train=_source(train, of_train),
        evaluation=None if evaluation is None else _source(evaluation, of_evaluation),
        size=size,
        num_classes=len(train.classes),
        description="; ".join(
            [f"{len(train.files):,} pictures of {len(train.classes):,} classes to train on, {held}", *notes]
        ),
    )


def _data_sets(*, train: Source, evaluation: Optional[Source], size: int, num_classes: int, description: str):
    # Here, since that module lists the functions of this one.
    from tpuloop.data.sample import DataSets

    return DataSets(
        train=train,
        evaluation=evaluation,
        model_arguments={"input_shape": (size, size, 3), "num_classes": num_classes},
        description=description,
    )


def _preprocessing(*, size: int, augment: str, dtype: str) -> Tuple[Preprocess, Preprocess]:
    """What is made of a picture to train on, and of one that is held out.

    Raises:
      DataError: for an argument out of range.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise DataError(f"size must be an integer of at least 1; it is {size!r}")
    for name, value, choices in (("augment", augment, AUGMENTATIONS), ("dtype", dtype, _DTYPES)):
        if value not in choices:
            raise DataError(f"{name} must be one of {', '.join(choices)}; it is {value!r}")
    result = tf.as_dtype(dtype)

    def cropped(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return train_image(encoded, seed, size=size, dtype=result)

    def middle(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        del seed
        return eval_image(encoded, size=size, dtype=result)

    def whole(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        del seed
        return whole_image(encoded, size=size, dtype=result)

    def shifted(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        # 4 of the 32 pixels of CIFAR. The zeros at the edge are the mean colour.
        return random_crop_and_flip(whole(encoded, seed), seed, padding=size // 8)

    return {"crop": (cropped, middle), "shift": (shifted, whole), "none": (whole, whole)}[augment]


def _source(folder: ImageFolder, preprocess: Preprocess) -> Source:
    @as_written
    def read(example: Tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        file, label = example
        encoded = tf.io.read_file(file)
        # The decoders would not name it.
        check = tf.debugging.Assert(is_picture(encoded), ["no JPEG, PNG, GIF or BMP, whatever its name:", file])
        with tf.control_dependencies([check]):
            return preprocess(tf.identity(encoded), seed), label

    files = ArraySource((np.array(folder.files, object), np.array(folder.labels, np.int64)))
    return files.map_examples(read, name="decode")


def _folders(path: str, *, held_out: float) -> Tuple[ImageFolder, Optional[ImageFolder]]:
    """What is trained on, and what is held out if anything."""
    if not tf.io.gfile.isdir(tf.io.gfile.join(path, "train")):
        return split_by_hash(list_image_folder(path), held_out=held_out)
    train = list_image_folder(tf.io.gfile.join(path, "train"))
    for name in _HELD_OUT_FOLDERS:
        folder = tf.io.gfile.join(path, name)
        if tf.io.gfile.isdir(folder):
            return train, list_image_folder(folder, classes=train.classes)
    return split_by_hash(train, held_out=held_out)


def split_by_hash(folder: ImageFolder, *, held_out: float) -> Tuple[ImageFolder, Optional[ImageFolder]]:
    """Two parts of a folder: what stays, and about a share of `held_out`; None where that is nothing.

    Raises:
      DataError: where nothing stays.
    """
    held = [_hashed(file) < held_out for file in folder.files]
    if all(held):
        raise DataError(f"nothing is left to train on of {len(held)} pictures with held_out={held_out}: give more")
    return _part(folder, [not one for one in held]), _part(folder, held) if any(held) else None


def _hashed(file: str) -> float:
    """A number from 0 to 1, below 1, of the last two parts of a path."""
    name = "/".join(file.replace("\\", "/").split("/")[-2:])
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big") / 2**48


def _part(folder: ImageFolder, kept) -> ImageFolder:
    pairs = [pair for pair, keep in zip(zip(folder.files, folder.labels), kept) if keep]
    files, labels = zip(*pairs)
    return ImageFolder(files=files, labels=labels, classes=folder.classes, notes=folder.notes)
