"""What a kind of input implements: one file, one small interface.

A kind scans its files once and gives an `Input`, which says what the examples are and how many units of input there
are (rows, images, records: whatever can be told apart before it is parsed). Shards are ranges of units. The input is
pickled to the workers, each of which reads its ranges in ascending order.
"""

import abc
import dataclasses
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from tpuloop.data.records.manifest import Feature

OnBad = Callable[[str], None]
"""Takes what is wrong with a unit of input. Returns where the unit is to be left out, else raises UsageError."""


_Bytes = bytes  # Under a name that no attribute has.


@dataclasses.dataclass(frozen=True)
class Batch:
    """Examples that were read together, a few megabytes at most.

    Attributes:
      numbers: int64 [n], the number of each example in the whole input; the split it belongs to depends on that alone.
      columns: of packed data, arrays [n, ...] by feature, in order and in the dtypes of the features.
      records: of other data, n serialized tf.train.Examples.
      units: of input that are done with this batch, those that gave no example included.
    """

    numbers: np.ndarray
    columns: Optional[Mapping[str, np.ndarray]] = None
    records: Optional[Sequence[bytes]] = None
    units: int = 0


@dataclasses.dataclass(frozen=True)
class Contents:
    """What an input holds.

    Attributes:
      features: of every example, in order.
      kind: "packed" or "examples", as in a manifest.
      units: of input, at least 1; ranges of them are read.
      bytes: about how many bytes of input there are, which the default number of shards follows from.
      unit: what a unit is called, in the plural.
      label: the feature that a model is to predict, if any.
      classes: the names of the label's classes, if it has names.
      made: plain data for the manifest: what else a reader of the records may want to know.
      source: plain data that changes when the input does, such as sizes and times of files.
      files: small files to stand beside the records, such as a vocabulary: their bytes by name.
    """

    features: Tuple[Feature, ...]
    kind: str
    units: int
    bytes: int
    unit: str
    label: Optional[str] = None
    classes: Optional[Tuple[str, ...]] = None
    made: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, _Bytes] = dataclasses.field(default_factory=dict)


class Input(abc.ABC):
    """Scanned input, which can be pickled."""

    @property
    @abc.abstractmethod
    def contents(self) -> Contents:
        """What it holds."""

    @abc.abstractmethod
    def read(self, start: int, stop: int, *, on_bad: OnBad) -> Iterator[Batch]:
        """The examples of the units from `start` to before `stop`, in order.

        What a unit gives must not depend on the range it is read in.

        Raises:
          UsageError: by way of `on_bad`, for a unit that cannot be used.
        """


class InputKind(abc.ABC):
    """One kind of input. See `kinds.py` for those there are.

    Attributes:
      name: as --format takes it.
      summary: half a line for the help.
      flags: names of the command's flags that it takes, beside those that all kinds take.
    """

    name: str
    summary: str
    flags: Tuple[str, ...] = ()

    @abc.abstractmethod
    def recognises(self, path: str) -> bool:
        """Whether a path that was given looks like this kind of input."""

    def define_flags(self) -> None:  # noqa: B027 (most kinds have none)
        """Defines, with absl, flags that no other kind takes. Must not load TensorFlow."""

    @abc.abstractmethod
    def scan(self, paths: Sequence[str], options: Mapping[str, Any], *, workers: int) -> Input:
        """Looks through the input once.

        Args:
          paths: as they were given, at least one.
          options: the values of `flags`, None where not given; "seed"; and "on_bad_record": with "fail", what
            is found to be wrong already now can be told now.
          workers: processes that may be used for it.

        Raises:
          UsageError: for input that cannot be used, in one line that names the file and the remedy.
        """
