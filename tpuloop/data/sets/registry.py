"""Data sets by name: what `--data=NAME` trains and evaluates on."""

import dataclasses
import importlib
from typing import Any, Callable, Dict, Mapping

import tensorflow as tf

from tpuloop.data.source import Source


@dataclasses.dataclass(frozen=True)
class DataSets:
    """What a run trains and is judged on.

    Attributes:
      train: a source, arrays, a `tf.data.Dataset` of global batches, or a function that returns one of these.
      evaluation: likewise, held out; None for a run without evaluation.
      model_arguments: what a model must know of the data, as keyword arguments of its builder.
      description: for the start of a run, such as "1,437 examples to train on, 360 held out".
      baseline: what the evaluation would give for guesses that look at no input, by the names of losses and metrics,
        such as the share of the most frequent class as "accuracy".
    """

    train: Any
    evaluation: Any = None
    model_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    description: str = ""
    baseline: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def resolved(self) -> "DataSets":
        """The same with functions called, so that what they return is known."""
        train, evaluation = (_called(data) for data in (self.train, self.evaluation))
        return dataclasses.replace(self, train=train, evaluation=evaluation)


def _called(data: Any) -> Any:
    return data() if callable(data) and not isinstance(data, (tf.data.Dataset, Source)) else data


# Each in a module of its own, which is loaded when it is asked for.
DATA_SETS: Dict[str, str] = {
    "bert": "tpuloop.data.sets.files:bert",
    "csv": "tpuloop.data.sets.files:csv",
    "digits": "tpuloop.data.sets.digits:digits",
    "docstrings": "tpuloop.data.sets.docstrings:docstrings",
    "imagenet": "tpuloop.data.sets.pictures:imagenet",
    "images": "tpuloop.data.sets.pictures:images",
    "jsonl": "tpuloop.data.sets.files:jsonl",
    "npz": "tpuloop.data.sets.files:npz",
    "pydoc": "tpuloop.data.sets.pydoc:pydoc",
    "records": "tpuloop.data.sets.converted:records",
    "synthetic": "tpuloop.data.sets.synthetic:synthetic",
}


def data_set_builder(name: str) -> Callable[..., DataSets]:
    """The function that makes a data set of `DATA_SETS`."""
    module, function = DATA_SETS[name].split(":")
    return getattr(importlib.import_module(module), function)
