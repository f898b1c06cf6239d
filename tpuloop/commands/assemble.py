"""From a recipe to a loop: data, model, optimizer, settings."""

import functools
import importlib
from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf

from tpuloop.commands.named import checked_arguments, load_function
from tpuloop.commands.optimizer import make_optimizer
from tpuloop.commands.recipe import Recipe, check_choice, is_number
from tpuloop.data import checks
from tpuloop.data.sets.registry import DATA_SETS, DataSets, data_set_builder
from tpuloop.data.source import as_source
from tpuloop.errors import UsageError, first_line
from tpuloop.loop import TrainLoop
from tpuloop.runtime import Runtime
from tpuloop.settings import LoopSettings
from tpuloop.task_loop import TaskLoop, TaskOfLoop, check_task


def load_data(recipe: Recipe) -> DataSets:
    """The data that a recipe names: a data set of ours, or what the user's function gives (a DataSets, or a pair).

    Raises:
      UsageError: for a name or argument that does not exist, or a file that cannot be read.
    """
    name = recipe.data["name"]
    if ":" in name:
        function = load_function(name, what="data")
    else:
        check_choice("data", name, DATA_SETS)
        function = data_set_builder(name)
    given = {key: value for key, value in recipe.data.items() if key != "name"}
    arguments = checked_arguments(function, given, what=f"data {name!r}")
    return called_data(lambda: function(**arguments), what=f"data {name!r}")


def called_data(function: Callable[[], Any], *, what: str) -> DataSets:
    """What a function of the user's returns, as DataSets.

    Raises:
      UsageError: where it returns anything else, or a file of it cannot be read.
    """
    try:
        return as_data_sets(function(), what=what)
    except OSError as error:
        reason = error.strerror if error.filename and error.strerror else first_line(error)
        file = f"{error.filename}: " if error.filename else ""
        raise UsageError(f"{what} cannot be read: {file}{reason}") from error
    except tf.errors.NotFoundError as error:
        raise UsageError(f"{what} cannot be read: {first_line(error)}") from error


def as_data_sets(data: Any, *, what: str) -> DataSets:
    """`data` itself, or a pair of training and evaluation data as DataSets.

    Raises:
      UsageError: for anything else.
    """
    if isinstance(data, DataSets):
        return data.resolved()
    if isinstance(data, tuple) and len(data) == 2:
        return DataSets(train=data[0], evaluation=data[1]).resolved()
    raise UsageError(f"{what} must return a tpuloop.DataSets or a pair (train, evaluation), not {type(data).__name__}")


class Network(NamedTuple):
    """A compiled model, and what it is trained on where that is more than it was compiled with.

    Attributes:
      model: with an optimizer.
      task: None where the model's own loss or step says it all.
    """

    model: tf.keras.Model
    task: Optional[TaskOfLoop] = None


def build_model(recipe: Recipe, data: DataSets, runtime: Runtime, *, optimizer_asked: bool = False) -> Network:
    """The model that a recipe names, with its loss and optimizer, unless the user's function compiled it.

    Args:
      optimizer_asked: as for `own_model`.

    Raises:
      UsageError: for a name or argument that does not exist or makes no model, or an optimizer without effect.
    """
    models = importlib.import_module("tpuloop.models")
    name = recipe.model["name"]
    if ":" in name:
        builder = load_function(name, what="model")
        default_task = data.model_arguments.get("task", "classification")
    else:
        check_choice("model", name, models.REGISTRY)
        builder, default_task = models.REGISTRY[name].builder(), models.REGISTRY[name].task
    given = {key: value for key, value in recipe.model.items() if key != "name"}
    arguments = checked_arguments(builder, given, what=f"model {name!r}", offered=data.model_arguments)
    words = data.model_arguments.get("vocab_size")
    if words is not None and is_number(given.get("vocab_size")) and given["vocab_size"] < words:
        raise UsageError(f"model {name!r}: vocab_size is {given['vocab_size']}, and the data has {words} tokens")
    with runtime.scope():
        try:
            model = builder(**arguments)
        except (TypeError, ValueError, tf.errors.ResourceExhaustedError) as error:
            raise UsageError(f"model {name!r} cannot be built: {first_line(error)}") from error
        check_is_model(model, what=f"model {name!r}")
        if model.optimizer is not None:
            _refuse_second_optimizer(optimizer_asked)
            if recipe.loss:
                raise UsageError("the recipe's loss would have no effect: the model comes compiled with its own")
            return Network(model)
        tasks = importlib.import_module("tpuloop.models.tasks")
        task_name = arguments.get("task", default_task)
        check_choice("task", task_name, tasks.TASKS)
        task = tasks.TASKS[task_name]
        batch = global_batch(data.train, recipe, asked=False)
        optimizer = make_optimizer(recipe.optimizer, run_steps=recipe.steps, global_batch=batch)
        if isinstance(task, tasks.WeightedTask):
            if recipe.loss:
                raise UsageError(f"loss: the task {task_name!r} takes no {', '.join(recipe.loss)}")
            model.compile(optimizer)
            return Network(model, task)
        loss_arguments = checked_arguments(task.loss, recipe.loss, what=f"the loss of {task_name!r}")
        try:
            loss = task.loss(**loss_arguments)
        except ValueError as error:
            raise UsageError(f"loss: {first_line(error)}") from error
        model.compile(optimizer, loss=loss, metrics=task.metrics())
    return Network(model)


def model_title(recipe: Recipe, model: tf.keras.Model) -> str:
    """The model's name in a recipe, and where that stands for other sizes than the recipe gives, which ones.

    Such as "bert_base with layers=2 in the place of 12".
    """
    models = importlib.import_module("tpuloop.models")
    name = recipe.model["name"]
    if name not in models.REGISTRY:
        return model.name
    changed = [
        f"{key}={recipe.model[key]} in the place of {value}"
        for key, value in models.REGISTRY[name].preset.items()
        if recipe.model.get(key, value) != value
    ]
    return f"{name} with {' and '.join(changed)}" if changed else name


def own_model(
    function: Callable[[Recipe], Any], recipe: Recipe, *, optimizer_asked: bool, batch: Optional[int] = None
) -> tf.keras.Model:
    """The model of a script, with the recipe's optimizer unless it comes compiled. In the strategy's scope.

    Args:
      optimizer_asked: whether flags or a recipe name an optimizer or a learning rate.
      batch: the global batch; None where batches differ.

    Raises:
      UsageError: where the function returns no model, or the optimizer asked for would have no effect.
    """
    model = function(recipe)
    check_is_model(model, what="model()")
    if model.optimizer is None:
        model.compile(make_optimizer(recipe.optimizer, run_steps=recipe.steps, global_batch=batch))
    else:
        _refuse_second_optimizer(optimizer_asked)
    return model


def _refuse_second_optimizer(asked: bool) -> None:
    if asked:
        raise UsageError(
            "--optimizer, --learning_rate or the recipe's optimizer would have no effect: the model comes compiled "
            "with its own; leave them out, or do not compile it"
        )


def check_is_model(model: Any, *, what: str) -> None:
    """Raises a UsageError where a user's function did not return a Keras model."""
    if not isinstance(model, tf.keras.Model):
        raise UsageError(f"{what} must return a Keras model, not {type(model).__name__}")


def check_fits(data: Any, network: Network, *, what: str, labels: bool = True) -> None:
    """Compares data with a model that takes it as it is, or with its task, before anything is compiled.

    Args:
      what, labels: as for `data.checks.check_fits`.

    Raises:
      DataError: naming what the data has and what the model takes.
    """
    source = as_source(data)
    if source is None:
        spec = getattr(data, "element_spec", None)
    else:
        spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec([None, *leaf.shape], leaf.dtype), source.element_spec)
    if network.task is None or not labels:
        checks.check_fits(spec, network.model, what=what, labels=labels)
    else:
        check_task(spec, network.model, network.task, what=what)


def prepare(recipe: Recipe) -> None:
    """What must be set before a model is built: the precision of its layers, and the seed of its weights."""
    tf.keras.mixed_precision.set_global_policy(
        recipe.mixed_precision if recipe.mixed_precision == "float32" else f"mixed_{recipe.mixed_precision}"
    )
    tf.keras.utils.set_random_seed(recipe.seed)


def global_batch(data: Any, recipe: Recipe, *, asked: bool) -> Optional[int]:
    """The examples in a global batch; None where a dataset's batches differ.

    Args:
      asked: whether a flag says how many.

    Raises:
      UsageError: where the flag would have no effect.
    """
    if as_source(data) is not None:
        return recipe.global_batch
    if asked:
        raise UsageError(
            f"--global_batch={recipe.global_batch} would have no effect: the data is a dataset, whose batches are made"
        )
    leaves = tf.nest.flatten(getattr(data, "element_spec", None))
    shape = getattr(leaves[0], "shape", None) if leaves else None
    return shape[0] if shape is not None and shape.rank else None


def batch_size(data: Any, global_batch: int) -> Optional[int]:
    """The global batch for data that has none of its own."""
    return None if as_source(data) is None else global_batch


def make_loop(
    recipe: Recipe,
    network: Network,
    runtime: Runtime,
    *,
    workdir: Optional[str],
    loop_class: Optional[Callable[..., TrainLoop]] = None,
) -> TrainLoop:
    """The loop of a recipe around a compiled model.

    Args:
      loop_class: of the user's; by default that of the model's task.
    """
    settings = LoopSettings(
        seed=recipe.seed,
        steps_per_loop=recipe.steps_per_loop,
        loop="host" if recipe.eager else "graph",
        clip_norm=recipe.clip_norm,
        accumulate_steps=recipe.accumulate_steps,
        ema_decay=recipe.ema_decay,
        save_every=recipe.save_every,
        keep=recipe.keep,
    )
    if loop_class is None:
        loop_class = TrainLoop if network.task is None else functools.partial(TaskLoop, task=network.task)
    with runtime.scope():  # A subclass may make models of its own.
        return loop_class(network.model, runtime=runtime, workdir=workdir, settings=settings)
