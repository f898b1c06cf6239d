"""Data sets of pictures that lie in files of one's own."""

from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tpuloop import paths
from tpuloop.data import bad_records
from tpuloop.data.arrays import ArraySource
from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError
from tpuloop.data.images.decode import check_image, decode_whole, is_picture
from tpuloop.data.images.folder import ImageFolder, list_image_folder
from tpuloop.data.images.layouts import Layout, detect_layout
from tpuloop.data.images.preprocess import eval_image, train_image, whole_image
from tpuloop.data.images.small import random_crop_and_flip
from tpuloop.data.images.split import split_by_hash
from tpuloop.data.index import counted
from tpuloop.data.lanes import RecordFile
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.files import open_file
from tpuloop.data.records.framing import RecordFault, read_frames
from tpuloop.data.sets.registry import DataSets
from tpuloop.data.source import Source

# `(encoded, seed)` of one example to what a model is given of it.
Preprocess = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_LOOKED_AT = 100  # Records, for the first good one.
AUGMENTATIONS = ("crop", "shift", None)
_DTYPES = ("float32", "bfloat16")
_HELD_OUT_FOLDERS = ("val", "validation", "test")


def images(
    *, path: str, size: int = 224, augment: Optional[str] = "crop", held_out: float = 0.1, dtype: str = "float32"
) -> DataSets:
    """A folder of pictures that has a subfolder for each class: `path`/CLASS/PICTURE.

    Where there is `path`/train with such subfolders, they are what is trained on, and those of `path`/val, validation
    or test are held out. Otherwise a share is held out, each picture by a hash of its class and name: the same ones
    in every run, wherever the folder lies and whatever is added to it.

    `x` is [size, size, 3] as `preprocess.normalise` gives it, `y` the number of the class by its name as int64.

    Args:
      path: of any file system that TensorFlow knows.
      size: height and width of what a model is given, in pixels.
      augment: of what is trained on. "crop" for photographs, a random part of each (`train_image`); "shift" for
        pictures of about that size, moved by up to an eighth of it and mirrored; None as in evaluation. What is held
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


def imagenet(
    *,
    path: str,
    size: int = 224,
    num_classes: int = 1000,
    train: str = "*train*",
    validation: Optional[str] = "*validation*",
    augment: Optional[str] = "crop",
    dtype: str = "float32",
    cache: bool = False,
    on_bad_record: str = "fail",
    max_bad_records: int = bad_records.MOST,
) -> DataSets:
    """ImageNet, or any other classification of pictures, as TFRecords of one picture each.

    The records have the classic layout (image/encoded, image/class/label from 1) or that of TensorFlow Datasets (image,
    label from 0), see `layouts`; which one is found out. `x` is [size, size, 3] as `preprocess.normalise` gives it, `y`
    the class from 0 as int64.

    Args:
      path: the folder of the files, of any file system that TensorFlow knows.
      size: height and width of what a model is given, in pixels.
      num_classes: other labels are an error.
      train: the pattern of the files' names, such as train-00000-of-01024; or subfolder/pattern.
      validation: likewise of what is held out; None for nothing.
      augment, dtype: as for `images`.
      cache: whether the pictures, as they are in the files, are read once and then lie in memory.
      on_bad_record, max_bad_records: see `bad_records.with_policy`; "skip" decodes all pictures once, before training.

    Raises:
      UsageError: where a pattern matches no file, or a file is damaged; where the first record of a split is of another
        layout, or its picture cannot be decoded; for an argument out of range.
    """
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 1:
        raise DataError(f"num_classes must be an integer of at least 1; it is {num_classes!r}")

    def files(pattern: str) -> List[RecordFile]:
        all_files = counted(paths.files_matching(paths.join(path, pattern)), damaged=on_bad_record == "skip")
        found = [file for file in all_files if file.records]
        if not found:
            raise DataError(f"the files {paths.join(path, pattern)} hold no records")
        return found

    return of_files(
        files(train),
        None if validation is None else files(validation),
        num_classes=num_classes,
        size=size,
        augment=augment,
        dtype=dtype,
        cache=cache,
        on_bad_record=on_bad_record,
        max_bad_records=max_bad_records,
    )


def of_files(
    train: Sequence[RecordFile],
    validation: Optional[Sequence[RecordFile]],
    *,
    num_classes: int,
    size: int,
    augment: Optional[str],
    dtype: str,
    cache: bool,
    on_bad_record: str,
    max_bad_records: int,
) -> DataSets:
    """The data sets of files of pictures in one of the layouts; see `imagenet`."""
    of_train, of_evaluation = _preprocessing(size=size, augment=augment, dtype=dtype)
    policy = {"on_bad_record": on_bad_record, "max_bad_records": max_bad_records}

    def source(files: Sequence[RecordFile], preprocess: Preprocess) -> Source:
        pictures = _records(files, preprocess, num_classes=num_classes, policy=policy)
        return pictures.cached() if cache else pictures

    to_train = source(train, of_train)
    held_out = None if validation is None else source(validation, of_evaluation)
    held = "none held out" if held_out is None else f"{held_out.size:,} held out"
    return _data_sets(
        train=to_train,
        evaluation=held_out,
        size=size,
        num_classes=num_classes,
        description=f"{to_train.size:,} pictures of {num_classes:,} classes to train on, {held}",
    )


def _data_sets(
    *, train: Source, evaluation: Optional[Source], size: int, num_classes: int, description: str
) -> DataSets:
    return DataSets(
        train=train,
        evaluation=evaluation,
        model_arguments={"input_shape": (size, size, 3), "num_classes": num_classes},
        description=description,
    )


def _preprocessing(*, size: int, augment: Optional[str], dtype: str) -> Tuple[Preprocess, Preprocess]:
    """What is made of a picture to train on, and of one that is held out.

    Raises:
      DataError: for an argument out of range.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise DataError(f"size must be an integer of at least 1; it is {size!r}")
    for name, value, choices in (("augment", augment, AUGMENTATIONS), ("dtype", dtype, _DTYPES)):
        if value not in choices:
            raise DataError(f"{name} must be one of {', '.join(map(str, choices))}; it is {value!r}")
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

    return {"crop": (cropped, middle), "shift": (shifted, whole), None: (whole, whole)}[augment]


class FolderSource(ArraySource):
    """Paths and class numbers of the pictures of a folder, shuffled over the whole of it."""

    def __init__(self, folder: ImageFolder):
        super().__init__((np.array(folder.files, object), np.array(folder.labels, np.int64)))
        self._files = folder.files

    def whereabouts(self, number: int) -> str:
        return self._files[number]


def _source(folder: ImageFolder, preprocess: Preprocess) -> Source:
    @as_written
    def read(example: Tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        file, label = example
        encoded = tf.io.read_file(file)
        # The decoders would not name it.
        checked = _checked(encoded, "no JPEG, PNG, GIF or BMP, whatever its name:", file)
        return preprocess(checked, seed), label

    return FolderSource(folder).map_examples(read, name="decode")


def _records(
    files: Sequence[RecordFile], preprocess: Preprocess, *, num_classes: int, policy: Mapping[str, Any]
) -> Source:
    """The pictures of some files.

    Raises:
      UsageError: as `imagenet`.
    """
    layout = _layout_of(files[0].path, skip=policy["on_bad_record"] == "skip")

    @as_written
    def parse(serialized: tf.Tensor) -> Any:
        return layout.parse(serialized, num_classes=num_classes)

    def decoded(source: Source, of_picture: Preprocess) -> Source:
        @as_written
        def decode(example: Tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
            encoded, label = example
            checked = _checked(encoded, f"feature {layout.image_key} is no JPEG, PNG, GIF or BMP")
            return of_picture(checked, seed), label

        return source.map_batches(parse, name="parse").map_examples(decode, name="decode")

    # The whole pictures, of which training may decode another part each time.
    whole = bad_records.with_policy(decoded(RecordSource(files), _size), **policy)
    (_, good), *_ = whole.stages()
    return decoded(good, preprocess)


def _size(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Height and width of a picture that is decoded whole."""
    del seed
    return tf.shape(decode_whole(encoded))[:2]


def _layout_of(file: str, *, skip: bool) -> Layout:
    """The layout of a file's first record, which must hold a picture; with `skip` of the first one that does.

    Raises:
      DataError: where it has none, or no picture.
    """
    wrong: Optional[DataError] = None
    with open_file(file) as content:
        frames = read_frames(content, on_fault=_ignored if skip else None)
        try:
            for number, (_, record) in zip(range(_LOOKED_AT if skip else 1), frames):
                try:
                    return _layout(record)
                except DataError as error:
                    wrong = wrong or DataError(f"{file}, record {number}: {error}")
        except RecordFault as fault:
            raise DataError(f"{file}, {fault}") from fault
    raise wrong or DataError(f"{file} holds no record that can be read")


def _ignored(fault: RecordFault) -> None:
    """Left to the policy of bad records, which counts and names them."""


def _layout(record: bytes) -> Layout:
    layout = detect_layout(record)
    reason = check_image(tf.train.Example.FromString(record).features.feature[layout.image_key].bytes_list.value[0])
    if reason:
        raise DataError(f"feature {layout.image_key} holds no picture: {reason}")
    return layout


def _checked(encoded: tf.Tensor, *message: Any) -> tf.Tensor:
    """`encoded`, where it begins as a picture does."""
    with tf.control_dependencies([tf.debugging.Assert(is_picture(encoded), message)]):
        return tf.identity(encoded)


def _folders(path: str, *, held_out: float) -> Tuple[ImageFolder, Optional[ImageFolder]]:
    """What is trained on, and what is held out if anything."""
    if not tf.io.gfile.isdir(paths.join(path, "train")):
        return split_by_hash(list_image_folder(path), held_out=held_out)
    train = list_image_folder(paths.join(path, "train"))
    for name in _HELD_OUT_FOLDERS:
        folder = paths.join(path, name)
        if tf.io.gfile.isdir(folder):
            return train, list_image_folder(folder, classes=train.classes)
    return split_by_hash(train, held_out=held_out)
