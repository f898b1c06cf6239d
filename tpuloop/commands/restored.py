"""The loop of a finished or interrupted run, restored from its folder, for commands that do not train."""

import logging
import os
from typing import Any, NamedTuple, Optional

from absl import flags

from tpuloop.commands import common_flags
from tpuloop.commands.recipe import Recipe, make_recipe
from tpuloop.errors import UsageError
from tpuloop.paths import is_remote, normalised

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")


class RestoredRun(NamedTuple):
    """A run as its newest valid checkpoint has it.

    Attributes:
      loop: with the restored model.
      network: that model, and its task.
      recipe: of the run.
      data_sets: of the recipe.
      step: steps that were done.
    """

    loop: Any
    network: Any
    recipe: Recipe
    data_sets: Any
    step: int


def define_restore_flags() -> None:
    """The flags that `restore_run` reads."""
    common_flags.define_workdir_flag("Folder of the run to use.")
    common_flags.define_runtime_flags()


def check_workdir() -> None:
    """Refuses a workdir that can hold no run, before anything else is looked at. Without TensorFlow.

    Raises:
      UsageError: where none is given, or there is no such folder.
    """
    workdir = FLAGS.workdir
    if not workdir:
        raise UsageError("--workdir is missing: give the folder of a run")
    if is_remote(normalised(workdir)) or os.path.isdir(workdir):
        return
    if os.path.exists(workdir):
        raise UsageError(f"--workdir={workdir} is a file: give a folder")
    raise UsageError(f"--workdir={workdir} holds no run (there is no such folder): train there first")


def restore_run() -> RestoredRun:
    """Builds the loop that the workdir's recipe says and restores its newest valid checkpoint. Loads TensorFlow.

    Raises:
      UsageError: where the workdir holds no run, or the run of a script.
      CheckpointError: where none of its checkpoints can be used.
    """
    check_workdir()
    runtime = common_flags.runtime_from_flags()
    from tpuloop.commands import assemble
    from tpuloop.commands.folder import CONFIG_FILE, RunFolder

    config = RunFolder(FLAGS.workdir).config()
    if config is None:
        raise UsageError(f"--workdir={FLAGS.workdir} holds no run ({CONFIG_FILE} is missing): train there first")
    if config["program"] != "tpuloop":
        raise UsageError(
            f"the run in {FLAGS.workdir} was made by {config['program']}, which alone knows its model and data: "
            "use TrainLoop.restore() there, and then evaluate or predict"
        )
    recipe = make_recipe(config["recipe"])
    assemble.prepare(recipe)
    data_sets = assemble.load_data(recipe)
    network = assemble.build_model(recipe, data_sets, runtime)
    loop = assemble.make_loop(recipe, network, runtime, workdir=FLAGS.workdir)
    step = loop.restore()
    if step is None:
        raise UsageError(f"--workdir={FLAGS.workdir} has no checkpoint yet: train there first")
    logger.info("step %d of %s, on %s", step, FLAGS.workdir, runtime.why)
    return RestoredRun(loop, network, recipe, data_sets, step)


def batch_size(data: Any, recipe: Recipe) -> Optional[int]:
    """The global batch for data that has none of its own: the flag's, else the recipe's."""
    from tpuloop.commands import assemble

    asked = FLAGS["global_batch"].value if "global_batch" in FLAGS else None
    return assemble.batch_size(data, recipe.global_batch if asked is None else asked)
