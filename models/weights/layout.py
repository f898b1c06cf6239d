"""A layout: by which names a kind of file holds its weights, and how its arrays lie."""

import dataclasses
import re
from typing import Any, Callable, Collection, Dict, Optional, Tuple

import numpy as np


def as_it_is(array: np.ndarray) -> np.ndarray:
    """`array`."""
    return array


def transposed(array: np.ndarray) -> np.ndarray:
    """[out, in] as PyTorch multiplies with it, to our [in, out]."""
    return array.T


def convolution(array: np.ndarray) -> np.ndarray:
    """[out, in, height, width] to our [height, width, in, out]."""
    return array.transpose(2, 3, 1, 0)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a variable's value comes from.

    Attributes:
      names: in the file.
      convert: makes the value of the arrays of these names.
      tied: pairs of names in the file that must hold the same where this is used: the model has one variable for both.
    """

    names: Tuple[str, ...]
    convert: Callable[..., np.ndarray] = as_it_is
    tied: Tuple[Tuple[str, str], ...] = ()


def _nothing(model: Any) -> None:
    return None


@dataclasses.dataclass(frozen=True)
class Layout:
    """Attributes:
    title: what people call it.
    sign: a regular expression for a name that files of this layout have and no others.
    sources: called with the names in a file and the model; returns sources by the names of our variables. Raises
      ValueError where the model is another variant than the file's.
    ignored: a regular expression for names that hold no weight.
    remark: called with the model; returns in a few words what else is to be known of such files, or None.
    """

    title: str
    sign: str
    sources: Callable[[Collection[str], Any], Dict[str, Source]]
    ignored: str = r"(?!)"  # None.
    remark: Callable[[Any], Optional[str]] = _nothing

    def is_layout_of(self, names: Collection[str]) -> bool:
        """Whether a file with these names has this layout."""
        return any(re.fullmatch(self.sign, name) for name in names)

    def ignores(self, name: str) -> bool:
        """Whether what is called so in a file is no weight."""
        return re.fullmatch(self.ignored, name) is not None


Translation = Callable[[str], Optional[Tuple[str, Callable[[np.ndarray], np.ndarray]]]]


def by_name(translate: Translation) -> Callable[[Collection[str], Any], Dict[str, Source]]:
    """The `sources` of a layout in which each variable has one name.

    Args:
      translate: returns our name for one of the file's, and the conversion; None for what is none of ours.
    """

    def sources(names: Collection[str], model: Any) -> Dict[str, Source]:
        found: Dict[str, Source] = {}
        for name in sorted(names):
            translation = translate(name)
            if translation is not None:
                ours, convert = translation
                found[ours] = Source((name,), convert)
        return found

    return sources
