"""`tpuloop train`: trains a recipe, from its start or from where it stopped."""

import logging
import platform
from typing import Any, Callable, Iterable, Optional

from absl import flags

import tpuloop
from tpuloop.commands import common_flags
from tpuloop.commands.recipe import Recipe
from tpuloop.errors import UsageError

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
    runtime = common_flags.runtime_from_flags()
    import tensorflow as tf

    from tpuloop.callbacks.progress import Progress
    from tpuloop.callbacks.tensorboard import TensorBoardScalars
    from tpuloop.checkpoint.commit import committed_steps
    from tpuloop.checkpoint.notice import SignalNotice
    from tpuloop.commands import assemble
    from tpuloop.commands.folder import RunFolder
    from tpuloop.loop import TrainLoop

    logger.info("tpuloop %s, TensorFlow %s, Python %s", tpuloop.__version__, tf.__version__, platform.python_version())
    folder = RunFolder(FLAGS.workdir)
    folder.check_same_recipe(recipe.to_json())
    finished = folder.finished_step(recipe.steps)
    if finished is not None:
        logger.info("%s is finished: step %d of %d is done, nothing to do", FLAGS.workdir, finished, recipe.steps)
        return 0
    logger.info("devices: %s", runtime.why)

    assemble.prepare(recipe)
    data_sets = assemble.load_data(recipe) if data is None else assemble.as_data_sets(data(recipe), what="data()")
    if model is None:
        network = assemble.build_model(recipe, data_sets, runtime)
    else:
        with runtime.scope():
            asked = FLAGS.optimizer is not None or FLAGS.learning_rate is not None
            network = assemble.own_model(model, recipe, optimizer_asked=asked)
    loop = assemble.make_loop(
        recipe, network, runtime, workdir=FLAGS.workdir, loop_class=TrainLoop if loop_class is None else loop_class
    )
    logger.info("model: %s, %s parameters", network.name, f"{network.count_params():,}" if network.built else "unbuilt")
    logger.info(
        "data: %s, global batch %d (%d a replica)",
        data_sets.description or recipe.data["name"] if data is None else data_sets.description or "the program's own",
        recipe.global_batch,
        recipe.global_batch // runtime.replicas,
    )
    saved = committed_steps(folder.checkpoints)
    logger.info("workdir: %s, %s", FLAGS.workdir, f"continues after step {saved[-1]}" if saved else "a new run")
    evaluation = data_sets.evaluation
    every = "" if evaluation is None else f", evaluating every {recipe.eval_every or 'epoch'}"
    logger.info("steps: to %d%s%s", recipe.steps, every, "" if recipe.eval_every is None else " steps")
    folder.record(recipe.to_json(), program=program, flags=_asked_flags())

    with SignalNotice(loop.request_stop) as notice:
        history = loop.fit(
            data_sets.train,
            steps=recipe.steps,
            batch_size=_batch_size(data_sets.train, recipe.global_batch),
            eval_data=evaluation,
            eval_every=recipe.eval_every if evaluation is not None else None,
            callbacks=[Progress(), TensorBoardScalars(directory=folder.events), *callbacks()],
        )
    if loop.stop_requested:
        step = int(loop.step.numpy())
        logger.info(
            "stopped by %s after step %d, its state is saved: the same command continues", notice.received, step
        )
        return 75
    _report(history, int(loop.step.numpy()))
    return 0


def _report(history: Any, step: int) -> None:
    """Prints the last evaluation, or the training loss where there is none."""
    values = {name: entries[-1] for name, entries in history.history.items() if entries}
    held_out = {name[4:]: value for name, value in values.items() if name.startswith("val_")}
    shown = held_out or values
    listed = ", ".join(f"{name} {value:.4f}" for name, value in sorted(shown.items()) if isinstance(value, float))
    print(f"{'held-out' if held_out else 'training'} {listed} at step {step}", flush=True)


def _batch_size(data: Any, global_batch: int) -> Optional[int]:
    """The global batch for data that has none of its own."""
    from tpuloop.data.source import as_source

    return global_batch if as_source(data) is not None else None


def _asked_flags() -> Any:
    return {name: FLAGS[name].value for name in ("accelerator", "tpu", "replicas") if FLAGS[name].present}
