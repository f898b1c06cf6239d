"""The loop of a task whose losses are means over what counts in a batch, such as its masked tokens."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError, check_fits
from tpuloop.engine.mean import Mean, SumOfMeans
from tpuloop.loop import LossAndMeans, TrainLoop


class TaskOfLoop(Protocol):
    """What the loop needs to know of a task; the `WeightedTask`s of `models/tasks.py` are such.

    Attributes:
      terms: maps `(outputs, x, y)` to named `(values, weights)`; weights None where all values count 1.
      minimised: the terms whose means are added up to what is minimised.
      features: names in `x` that the terms need beside the model's inputs.
      labels: maps the model's outputs to the shapes of `y` for one example, by name where it has several; None for a
        task without labels.
      predictions: maps outputs to what `predict` gives, by name.
    """

    terms: Callable[[Any, Any, Any], Mapping[str, Tuple[tf.Tensor, Optional[tf.Tensor]]]]
    minimised: Sequence[str]
    features: Sequence[str]
    labels: Optional[Callable[[Any], Any]]
    predictions: Callable[[Any], Dict[str, tf.Tensor]]


class TaskLoop(TrainLoop):
    """Trains a functional model with named inputs on a task whose terms are weighted.

    Batches are dicts of features, or tuples `(x, y, sample_weight)` of which `x` is such a dict; features that the
    model does not take are for the task. Sample weights multiply the weights of all terms.

    Args:
      model: its inputs have names.
      task: the losses and what else is reported.
      settings: further arguments of `TrainLoop`.
    """

    def __init__(self, model: tf.keras.Model, *, task: TaskOfLoop, **settings: Any):
        super().__init__(model, **settings)
        self._task = task

    @as_written
    def forward_loss(self, batch: Any, *, training: bool) -> LossAndMeans:
        """The task's terms as means; the sum of the minimised ones is the loss."""
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(batch)
        outputs = self.model(self._inputs(x), training=training)
        means = {
            name: _mean(values, weights, sample_weight)
            for name, (values, weights) in self._task.terms(outputs, x, y).items()
        }
        minimised = {name: means.pop(name) for name in self._task.minimised}
        loss = next(iter(minimised.values())) if len(minimised) == 1 else SumOfMeans(**minimised)
        return loss, means

    @as_written
    def predict_step(self, batch: Any) -> Dict[str, tf.Tensor]:
        """What the task calls its predictions."""
        x, _, _ = tf.keras.utils.unpack_x_y_sample_weight(batch)
        return self._task.predictions(self.model(self._inputs(x), training=False))

    def _inputs(self, x: Mapping[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        # Keras warns of features that a model does not take.
        return {name: x[name] for name in self.model.input_names}


def _mean(values: tf.Tensor, weights: Optional[tf.Tensor], sample_weight: Optional[tf.Tensor]) -> Mean:
    mean = Mean(values, weights)
    if sample_weight is None:
        return mean
    if sample_weight.shape.rank == 2 and sample_weight.shape[1] == 1 and mean.values.shape.rank != 2:
        sample_weight = sample_weight[:, 0]
    return mean.masked(sample_weight)


def check_task(spec: Any, model: tf.keras.Model, task: TaskOfLoop, *, what: str) -> None:
    """Compares data with what a model and a task need of it, before anything is compiled.

    Args:
      spec: the element spec of a dataset of batches, or None where it is not known.
      what: the data's name in the message.

    Raises:
      DataError: naming what is missing, or does not fit.
    """
    if spec is None:
        return
    x, y, _ = tf.keras.utils.unpack_x_y_sample_weight(spec)
    if not isinstance(x, Mapping):
        raise DataError(
            f"{what}: its features have no names, and the model {model.name!r} takes {', '.join(model.input_names)}: "
            "give a dict of features"
        )
    without = [name for name in model.input_names if name not in x]
    if without:
        raise DataError(
            f"{what} has no {without[0]!r}, which the model {model.name!r} takes for its task; it has {', '.join(x)}: "
            "name the task that the data is for (model.task), or give the feature"
        )
    check_fits(spec, model, what=what, labels=False)
    missing: List[str] = [name for name in task.features if name not in x]
    if missing:
        raise DataError(f"{what} has no {missing[0]!r}, which its task compares outputs with; it has {', '.join(x)}")
    if task.labels is not None:
        if y is None:
            raise DataError(f"{what} has no labels, which its task compares outputs with: give pairs (x, y)")
        _check_labels(y, task.labels(model.output), what=what)


def _check_labels(y: Any, wanted: Any, *, what: str) -> None:
    if not isinstance(wanted, Mapping):
        y, wanted = {"y": y}, {"y": wanted}
    if not isinstance(y, Mapping) or set(wanted) - set(y):
        names = ", ".join(y) if isinstance(y, Mapping) else "an array"
        raise DataError(f"{what}: its labels are {names}, and its task takes {', '.join(wanted)}: name them so")
    for name, shape in wanted.items():
        found = getattr(y[name], "shape", tf.TensorShape(None))[1:]
        # One number for an example may stand in an array of its own.
        taken = [shape] if len(shape) else [[], [1]]
        if not any(found.is_compatible_with(one) for one in taken):
            raise DataError(
                f"{what}: the labels {name!r} of an example have the shape {found}, and its task takes "
                f"{tf.TensorShape(shape)}: one for each {'token' if len(shape) else 'example'}"
            )
