"""`tpuloop train`: trains a recipe, from its start or from where it stopped."""

import logging
import platform
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional

from absl import flags

import tpuloop
from tpuloop.checkpoint import notice
from tpuloop.commands import common_flags, init_from
from tpuloop.commands.program import DONE, FAILED, STOPPED
from tpuloop.commands.recipe import Recipe
from tpuloop.commands.result_line import baseline_line, result_line
from tpuloop.errors import UsageError
from tpuloop.paths import normalised

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")

SUMMARY = "trains a model; the same command again continues the run"


def define_flags() -> None:
    """The flags of the command."""
    common_flags.define_workdir_flag("Folder of the run; the same command again continues it.")
    common_flags.define_recipe_flags()
    common_flags.define_runtime_flags()


def run() -> int:
    """Trains what the flags say."""
    return train(common_flags.recipe_from_flags(), program="tpuloop")


def train(
    recipe: Recipe,
    *,
    program: str,
    loop_class: Any = None,
    model: Optional[Callable[[Recipe], Any]] = None,
    data: Optional[Callable[[Recipe], Any]] = None,
    callbacks: Callable[[], Iterable[Any]] = tuple,
) -> int:
    """Trains a recipe in the workdir of the flags and returns the exit status; see `tpuloop.run` for the arguments.

    Without `model` and `data`, the recipe names them.
    """
    if not FLAGS.workdir:
        raise UsageError("--workdir is missing: give a folder for the run")
    normalised(FLAGS.workdir)  # Before TensorFlow is loaded: a path that no store has.
    if recipe.init_from is not None and init_from.looks_new(FLAGS.workdir):
        init_from.check_path(recipe.init_from)
    try:
        with notice.interrupting():
            job = _set_up(recipe, program=program, loop_class=loop_class, model=model, data=data, callbacks=callbacks)
    except KeyboardInterrupt:
        logger.info("stopped before its first step, so that nothing is lost: the same command starts again")
        return STOPPED
    return DONE if job is None else _fit(job)


class _Job(NamedTuple):
    """All that one call of `fit` needs."""

    recipe: Recipe
    loop: Any
    data_sets: Any
    callbacks: List[Any]


def _set_up(
    recipe: Recipe,
    *,
    program: str,
    loop_class: Any,
    model: Optional[Callable[[Recipe], Any]],
    data: Optional[Callable[[Recipe], Any]],
    callbacks: Callable[[], Iterable[Any]],
) -> Optional[_Job]:
    """Finds the devices, builds everything, says what it is, and takes the workdir; None for a finished run."""
    runtime = common_flags.runtime_from_flags()
    import tensorflow as tf

    from tpuloop.callbacks.progress import Progress
    from tpuloop.callbacks.tensorboard import TensorBoardScalars
    from tpuloop.commands import assemble
    from tpuloop.commands.folder import RunFolder
    from tpuloop.commands.optimizer import describe_learning_rate
    from tpuloop.data.checks import check_classes

    logger.info("tpuloop %s, TensorFlow %s, Python %s", tpuloop.__version__, tf.__version__, platform.python_version())
    folder = RunFolder(FLAGS.workdir)
    folder.check_same_run(recipe.to_json(), program=program)
    finished = folder.finished_step(recipe.steps)
    if finished is not None:
        logger.info("%s is finished: step %d of %d is done, nothing to do", FLAGS.workdir, finished, recipe.steps)
        return None
    logger.info("devices: %s", runtime.why)

    assemble.prepare(recipe)
    data_sets = (
        assemble.load_data(recipe) if data is None else assemble.called_data(lambda: data(recipe), what="data()")
    )
    if recipe.eval_every is not None and data_sets.evaluation is None:
        raise UsageError(
            f"eval_every is {recipe.eval_every}, and the data has nothing held out to evaluate on: "
            "leave it out (--config.eval_every=None)"
        )
    global_batch = assemble.global_batch(data_sets.train, recipe, asked=FLAGS.global_batch is not None)
    asked = FLAGS.optimizer is not None or FLAGS.learning_rate is not None or recipe.optimizer != Recipe().optimizer
    if model is None:
        network = assemble.build_model(recipe, data_sets, runtime, optimizer_asked=asked)
    else:
        with runtime.scope():
            network = assemble.Network(assemble.own_model(model, recipe, optimizer_asked=asked, batch=global_batch))
    if loop_class is None and type(network.model).train_step is tf.keras.Model.train_step:
        # Else only the program, or the model, knows what becomes of a batch.
        assemble.check_fits(data_sets.train, network, what="the training data")
        assemble.check_fits(data_sets.evaluation, network, what="the evaluation data")
        if "num_classes" in data_sets.model_arguments:
            check_classes(data_sets.model_arguments["num_classes"], network.model)
    saved = folder.committed_steps()
    started_from = None
    if recipe.init_from is not None and not saved:
        with runtime.scope():
            started_from = init_from.start_from(network.model, recipe.init_from)
    loop = assemble.make_loop(recipe, network, runtime, workdir=FLAGS.workdir, loop_class=loop_class)
    parameters = f"{network.model.count_params():,} parameters" if network.model.built else "not built yet"
    title = network.model.name if model is not None else assemble.model_title(recipe, network.model)
    logger.info("model: %s, %s", title, parameters)
    logger.info(
        "data: %s, %s",
        data_sets.description or recipe.data["name"] if data is None else data_sets.description or "the program's own",
        f"global batch {global_batch} ({global_batch // runtime.replicas} a replica)"
        if global_batch
        else "its own batches",
    )
    if started_from is not None:
        logger.info("init_from: %s", started_from.summary(recipe.init_from))
    logger.info("workdir: %s, %s", FLAGS.workdir, f"continues after step {saved[-1]}" if saved else "a new run")
    evaluation = data_sets.evaluation
    every = "" if evaluation is None else f", evaluating every {recipe.eval_every or 'epoch'}"
    learning_rate = describe_learning_rate(recipe, global_batch=global_batch)
    if learning_rate:
        logger.info("learning rate: %s", learning_rate)
    logger.info("steps: to %d%s%s", recipe.steps, every, "" if recipe.eval_every is None else " steps")
    folder.record(recipe.to_json(), program=program, flags=_asked_flags())
    return _Job(recipe, loop, data_sets, [Progress(), TensorBoardScalars(directory=folder.events), *callbacks()])


def _fit(job: _Job) -> int:
    """Trains until the run is done or a signal comes, and says how it ended."""
    from tpuloop.commands import assemble

    recipe, loop, data_sets, callbacks = job

    def stop(name: str) -> None:
        loop.request_stop()
        logger.info("%s came: stopping after this step and saving; another one ends the run at once", name)

    with notice.SignalNotice(stop) as signals:
        history = loop.fit(
            data_sets.train,
            steps=recipe.steps,
            batch_size=assemble.batch_size(data_sets.train, recipe.global_batch),
            eval_data=data_sets.evaluation,
            eval_every=recipe.eval_every,
            callbacks=callbacks,
        )
    step = int(loop.step.numpy())
    if loop.stop_requested:
        by = signals.received or "the program"
        logger.info("stopped by %s after step %d, its state is saved: the same command continues", by, step)
        return STOPPED
    if loop.place is not None and loop.place.diverged:
        return FAILED  # As the loop has said.
    _report(history, step, baseline=data_sets.baseline)
    return DONE


def _report(history: Any, step: int, *, baseline: Mapping[str, float]) -> None:
    """Prints the last evaluation and what a guess would give, or the training loss where there is none."""
    values = {name: entries[-1] for name, entries in history.history.items() if entries}
    held_out = {name[4:]: value for name, value in values.items() if name.startswith("val_")}
    kind, shown = ("held-out", held_out) if held_out else ("training", values)
    print(result_line(kind, shown, step=step), flush=True)
    if held_out and baseline:
        print(baseline_line(baseline), flush=True)


def _asked_flags() -> Any:
    return {name: FLAGS[name].value for name in ("accelerator", "tpu", "replicas") if FLAGS[name].present}
