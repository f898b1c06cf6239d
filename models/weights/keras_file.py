"""HDF5 files of Keras: `Model.save_weights("x.h5")`, `Model.save("x.h5")`, and the files of Keras Applications."""

import re
from typing import Any, Dict

import numpy as np

from .values import Values, as_float32, one_line


class KerasFile(Values):
    """Names are those of the variables, without ":0".

    Raises:
      ValueError: where it cannot be opened, or holds something else than weights of Keras.
    """

    def __init__(self, path: str):
        import h5py  # Comes with TensorFlow.

        self._path = path
        self.shapes = {}
        self._values: Dict[str, Any] = {}
        try:
            file = h5py.File(path, "r")
            root = file["model_weights"] if "model_weights" in file else file
            for layer in _texts(root, "layer_names"):
                for weight in _texts(root[layer], "weight_names"):
                    name = _name(layer, weight)
                    if name in self.shapes:
                        raise ValueError(f"{path} holds {name} twice: save it with layers of different names")
                    self.shapes[name] = tuple(root[layer][weight].shape)
                    self._values[name] = root[layer][weight]
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{path} cannot be read as HDF5: {one_line(error)}") from error
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} is an HDF5 file, but not one of Model.save_weights or Model.save") from error

    def read(self, name: str) -> np.ndarray:
        try:
            return as_float32(self._values[name][...])
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{self._path} is damaged at {name}: {one_line(error)}") from error


def _texts(group: Any, attribute: str) -> Any:
    """An attribute of names, which Keras splits into numbered ones where it is too long for one."""
    if attribute in group.attrs:
        values = list(group.attrs[attribute])
    else:
        values, number = list(group.attrs[f"{attribute}0"]), 1
        while f"{attribute}{number}" in group.attrs:
            values += list(group.attrs[f"{attribute}{number}"])
            number += 1
    return [value.decode("utf-8") if isinstance(value, bytes) else value for value in values]


def _name(layer: str, weight: str) -> str:
    """A layer that was made a second time in one process may have given its variables a number: conv_1/kernel:0."""
    return re.sub(rf"^{re.escape(layer)}_\d+/", f"{layer}/", re.sub(r":\d+$", "", weight))
