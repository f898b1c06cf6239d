"""Files of the format safetensors, which Hugging Face and others publish weights in."""

import json
import os
from typing import Any, Dict, List, Sequence

import numpy as np

from .errors import PackageMissing
from .values import Values, as_float32, one_line


def need_library() -> Any:
    """The package safetensors.

    Raises:
      PackageMissing: where it is.
    """
    try:
        import safetensors
    except ImportError as error:
        raise PackageMissing("safetensors") from error
    return safetensors


def shards(index: str) -> List[str]:
    """The files that an index, such as model.safetensors.index.json, names.

    Raises:
      ValueError: where it is no index, or a file is missing.
    """
    try:
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
        paths = [os.path.join(os.path.dirname(index), name) for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{index} is no index of safetensors files ({one_line(error)})") from error
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing or not paths:
        raise ValueError(f"{index} names {missing[0] if missing else 'no file'}, which is not there: download it again")
    return paths


class SafetensorsFiles(Values):
    """One file, or the several that a large model is split into.

    Raises:
      ValueError: where one cannot be opened, or two hold the same name.
    """

    def __init__(self, paths: Sequence[str]):
        library = need_library()
        self.shapes = {}
        self._files: Dict[str, Any] = {}
        self._paths: Dict[str, str] = {}
        for path in paths:
            try:
                file = library.safe_open(path, framework="np")
            except (OSError, library.SafetensorError) as error:
                raise ValueError(f"{path} cannot be read as safetensors: {one_line(error)}") from error
            for name in file.keys():
                if name in self.shapes:
                    raise ValueError(f"{path} and {self._paths[name]} both hold {name}: download them again")
                self.shapes[name] = tuple(file.get_slice(name).get_shape())
                self._files[name], self._paths[name] = file, path

    def read(self, name: str) -> np.ndarray:
        file = self._files[name]
        if file.get_slice(name).get_dtype() == "BF16":
            return _read_bfloat16(self._paths[name], name)
        try:
            return as_float32(file.get_tensor(name))
        except (KeyError, TypeError, AttributeError) as error:  # As the library fails at a type that NumPy lacks.
            kind = file.get_slice(name).get_dtype()
            raise ValueError(f"{self._paths[name]}: {name} is {kind}: save it as float32 or bfloat16") from error


def _read_bfloat16(path: str, name: str) -> np.ndarray:
    """The library gives bfloat16 to NumPy only where a package for it is installed. It has checked the offsets."""
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(start - 8))[name]
        first, end = entry["data_offsets"]
        file.seek(start + first)
        halves = np.frombuffer(file.read(end - first), "<u2")
    # The first half of a float32's bits.
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
