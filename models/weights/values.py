"""What every file of weights is to the rest of the package."""

import abc
from typing import Any, Dict, Tuple

import numpy as np

Shape = Tuple[int, ...]


class Values(abc.ABC):
    """Named arrays, each of which is read when it is asked for.

    Attributes:
      shapes: of every array, by name.
    """

    shapes: Dict[str, Shape]

    @abc.abstractmethod
    def read(self, name: str) -> np.ndarray:
        """The array of that name, float32 where it is of any floating type.

        Raises:
          ValueError: where the file turns out to be damaged.
        """


def as_float32(array: Any) -> np.ndarray:
    """`array` in float32 where it holds numbers of another floating type, else as it is."""
    array = np.asarray(array)
    is_bfloat16 = array.dtype.name == "bfloat16"  # TensorFlow's own type, which is none of NumPy's floating ones.
    return array.astype(np.float32) if is_bfloat16 or np.issubdtype(array.dtype, np.floating) else array


def one_line(error: BaseException) -> str:
    """What an error says, in its first line; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
