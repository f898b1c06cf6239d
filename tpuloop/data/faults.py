"""What in the data made a pipeline fail: the file, the record, the stage.

TensorFlow's own message names neither the file nor the record. As a source can be entered anywhere, the stream is
entered again where it failed, and its stages are tried one by one.
"""

import contextlib
import re
from typing import Callable, Iterator, NamedTuple, Optional

import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.mapped import Map
from tpuloop.data.source import Source
from tpuloop.errors import first_line

# What errors in an example look like. Others, such as that memory ran out, are none of the data's.
ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
    tf.errors.UnimplementedError,
    tf.errors.UnknownError,
)

# Of graphs; and of the row of a batch that is parsed, which holds one.
_GRAPH_NAMES = re.compile(r"\{\{[^}]*\}\}\s*|\s*\[Op:\w+\]|\s*\[\[.*?\]\]|Name: <unknown>, |, Index: \d+")
# What TensorFlow's loss for class numbers says on a CPU.
_WRONG_LABEL = re.compile(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")


# And its look-up in a table, such as that of word embeddings.
_WRONG_INDEX = re.compile(r"indices\[[\d,]+\] = (-?\d+) is not in \[0, (\d+)\)")


class Fault(NamedTuple):
    """An example that cannot be used.

    Attributes:
      number: of the example in the stored order; of the first of its record's, if that holds several.
      where: the file and the record, as far as the source knows.
      reason: what is wrong with it.
      rest: nothing behind it in its file can be read either.
    """

    number: int
    where: str
    reason: str
    rest: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def find_fault(source: Source, stream: Callable[[Source], tf.data.Dataset], *, seed: int = 0) -> Optional[Fault]:
    """The first example that makes a stream of a source fail; None where it does not fail.

    Args:
      stream: the stream that failed as a finite one, of the source or of one that it is made of, as `(batch, Origin)`.
      seed: of the run.
    """
    stages = source.stages()
    for place, (name, stage) in enumerate(stages):
        failed = _until_error(stream(stage))
        if failed is None:
            continue
        if not isinstance(stage, Map):
            return stage.find_fault()
        rows = stream(stages[place - 1][1]).skip(failed.good).unbatch().batch(1)
        in_batch = _until_error(stage.mapped(rows, seed=seed, rows=1, full=True))
        if in_batch is None:
            return None
        for _, origin in rows.skip(in_batch.good).take(1):
            number = int(origin.numbers[0])
            return Fault(number, stage.whereabouts(number), f"{name}: {said(in_batch.error)}")
    return None


@contextlib.contextmanager
def naming_faults(source: Source, stream: Callable[[Source], tf.data.Dataset], *, seed: int = 0) -> Iterator[None]:
    """Around what reads a stream of `source`: an error that an example causes becomes one that names it.

    Args:
      stream: as for `find_fault`; called when an error came.

    Raises:
      DataError: in the place of TensorFlow's error.
    """
    try:
        yield
    except ERRORS as error:
        label = _WRONG_LABEL.search(str(error))
        if label is not None:
            value, classes = label.groups()
            raise DataError(
                f"the data has the label {value}, and the model has outputs for {classes} classes, 0 to "
                f"{int(classes) - 1}: number the classes from 0, or give the model more of them"
            ) from error
        index = _WRONG_INDEX.search(str(error))
        if index is not None:
            value, rows = index.groups()
            raise DataError(
                f"the data has the number {value} where the model looks up one of {rows} rows, 0 to {int(rows) - 1}: "
                "give the model the data's vocab_size, or keep positions and numbers below its own"
            ) from error
        fault = find_fault(source, stream, seed=seed)
        if fault is None:
            raise
        raise DataError(f"{fault}: {source.remedy}") from error


class _Failed(NamedTuple):
    good: int  # Elements before the error.
    error: tf.errors.OpError


def _until_error(dataset: tf.data.Dataset) -> Optional[_Failed]:
    """Reads a dataset up to its first error; None where there is none."""
    good = 0
    iterator = iter(dataset)
    while True:
        try:
            next(iterator)
        except StopIteration:
            return None
        except ERRORS as error:
            return _Failed(good, error)
        good += 1


def said(error: tf.errors.OpError) -> str:
    """What an error of TensorFlow's says, without the names of its graph."""
    return _GRAPH_NAMES.sub("", first_line(error)).strip(" .") or type(error).__name__
