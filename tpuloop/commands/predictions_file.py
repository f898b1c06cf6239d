"""Outputs and labels as a file: arrays by name, in .npz or .csv."""

import csv
import io
import zipfile
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from tpuloop.errors import UsageError

FORMATS = (".npz", ".csv")


def named_arrays(outputs: Any, labels: Any) -> Dict[str, np.ndarray]:
    """Outputs and, beside them, labels (or None), each by a name of its own, as numbers or text.

    Outputs in a dict keep their names, one alone is "predictions", and nested ones are joined by "_". Labels are
    "labels", or "true_labels" where an output has that name.

    Raises:
      UsageError: for what is neither numbers nor text, or two outputs of one name.
    """
    arrays = _by_name(outputs, "" if isinstance(outputs, Mapping) else "predictions")
    if labels is not None:
        beside = _by_name(labels, "labels")
        if set(beside) & set(arrays):
            beside = _by_name(labels, "true_labels")
        if set(beside) & set(arrays):
            raise UsageError(f"two outputs are called {min(set(beside) & set(arrays))!r}: rename one in the model")
        arrays.update(beside)
    return arrays


def contents(arrays: Mapping[str, np.ndarray], ending: str) -> bytes:
    """The file, in the format of FORMATS that its name ends in. Numbers are exact in both.

    Raises:
      UsageError: for arrays that do not make one table.
    """
    return _npz(arrays) if ending == ".npz" else _csv(arrays)


def _by_name(values: Any, name: str) -> Dict[str, np.ndarray]:
    arrays: Dict[str, np.ndarray] = {}
    for leaf_name, leaf in _leaves(values, name):
        if leaf_name in arrays:
            raise UsageError(f"two outputs are called {leaf_name!r}: rename one in the model")
        arrays[leaf_name] = _numbers_or_text(leaf, leaf_name)
    return arrays


def _leaves(values: Any, name: str) -> Iterator[Tuple[str, Any]]:
    if isinstance(values, (tuple, list)):
        values = dict(enumerate(values))
    if not isinstance(values, Mapping):
        yield name, values
        return
    for key, value in values.items():
        yield from _leaves(value, f"{name}_{key}" if name else str(key))


def _numbers_or_text(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":  # TensorFlow's own type, which files know nothing of.
        return array.astype(np.float32)
    if array.dtype.kind in "biufcU":
        return array
    if array.dtype.kind in "SO":  # Strings of TensorFlow are objects.
        strange = [item for item in array.flat if not isinstance(item, (str, bytes))]
        if not strange:
            return _text(array, name)
        kind = type(strange[0]).__name__
    else:
        kind = array.dtype.name
    raise UsageError(f"{name!r} holds a {kind}: only numbers and text can be written")


def _text(array: np.ndarray, name: str) -> np.ndarray:
    try:
        items = [item.decode("utf-8") if isinstance(item, bytes) else item for item in array.flat]
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name!r} holds bytes that are no UTF-8 text: only numbers and text can be written"
        ) from error
    return np.array(items, np.str_).reshape(array.shape)


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    # Not np.savez, which takes the names as arguments and has one of its own.
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()


def _csv(arrays: Mapping[str, np.ndarray]) -> bytes:
    (first, rows), *others = ((name, len(array)) for name, array in arrays.items())
    for name, count in others:
        if count != rows:
            raise UsageError(
                f"a .csv file needs as many rows of each, and there are {rows} of {first!r} and {count} of {name!r}: "
                "write a .npz file"
            )
    columns: Dict[str, List[str]] = {}
    for name, array in arrays.items():
        for column_name, column in _columns(name, array):
            if column_name in columns:
                raise UsageError(f"two columns would be called {column_name!r}: write a .npz file")
            columns[column_name] = column
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return file.getvalue().encode("utf-8")


def _columns(name: str, array: np.ndarray) -> Iterator[Tuple[str, List[str]]]:
    """An array as columns of one value an example."""
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    # As text, a number has as many digits as its type needs to be read back exactly.
    texts = array.astype(np.str_).reshape([len(array), int(np.prod(array.shape[1:]))])
    for index in range(texts.shape[1]):
        yield (name if array.ndim == 1 else f"{name}_{index}"), texts[:, index].tolist()
