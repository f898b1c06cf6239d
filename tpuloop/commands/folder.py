"""The folder of a run, and the recipe it belongs to."""

import json
import os
import platform
from typing import Any, Dict, List, Mapping, Optional

import tensorflow as tf

import tpuloop
from tpuloop import gcs_plugin
from tpuloop.checkpoint import commit
from tpuloop.commands.recipe import make_recipe, recipe_differences
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import check_bucket, is_folder, normalised

CONFIG_FILE = "config.json"


class RunFolder:
    """WORKDIR: one run, which the same command continues.

    Raises:
      UsageError: for a path that is no folder, or that no store has or lets us see.
    """

    def __init__(self, path: str):
        gcs_plugin.avoid_faults(os.environ)
        self.path = path = normalised(path)
        try:
            is_there = tf.io.gfile.exists(path)
            is_file = is_there and not is_folder(path)
        except (OSError, tf.errors.OpError) as error:  # A file system that is not there, or does not let us in.
            check_bucket(path)
            raise UsageError(f"--workdir={path} cannot be used: {first_line(error)}") from error
        if is_file:
            raise UsageError(f"--workdir={path} is a file: give a folder")
        if not is_there:
            check_bucket(path)

    @property
    def checkpoints(self) -> str:
        """The folder of the checkpoints."""
        return os.path.join(self.path, "checkpoints")

    @property
    def events(self) -> str:
        """The folder of the TensorBoard events."""
        return os.path.join(self.path, "events")

    def committed_steps(self) -> List[int]:
        """The steps of the checkpoints, ascending.

        Raises:
          CheckpointError: where it cannot be found out.
        """
        try:
            return commit.committed_steps(self.checkpoints)
        except (OSError, tf.errors.OpError) as error:
            raise commit.CheckpointError(
                f"cannot look for checkpoints in {self.checkpoints}: {first_line(error)}"
            ) from error

    def config(self) -> Optional[Dict[str, Any]]:
        """What `record` wrote, or None in a folder without a run.

        Raises:
          UsageError: where the file cannot be read.
        """
        path = os.path.join(self.path, CONFIG_FILE)
        try:
            if not tf.io.gfile.exists(path):
                return None
            with tf.io.gfile.GFile(path) as file:
                config = json.loads(file.read())
            config["recipe"].items(), os.path.basename(config["program"])
        except (OSError, tf.errors.OpError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{path} is damaged ({type(error).__name__}): restore it, or use another workdir"
            ) from error
        return config

    def check_same_run(self, recipe: Mapping[str, Any], *, program: str) -> None:
        """Refuses to continue a run with another program, or a recipe that computes something else.

        Before its first checkpoint a run has nothing to continue, and any recipe may begin anew.

        Raises:
          UsageError: naming what differs; also for checkpoints that belong to no recipe.
        """
        config = self.config()
        if not self.committed_steps():
            return
        if config is None:
            raise UsageError(f"{self.path} has checkpoints and no {CONFIG_FILE}: use another workdir")
        # Not the whole path: a script may be called from another folder.
        if os.path.basename(config["program"]) != os.path.basename(program):
            raise UsageError(f"{self.path} belongs to a run of {config['program']}, not {program}: use another workdir")
        # An older version may have known fewer fields; what they are by default, the run was made with.
        differences = recipe_differences(make_recipe(config["recipe"]).to_json(), recipe)
        if differences:
            raise UsageError(
                f"{self.path} belongs to a run with another recipe ({'; '.join(differences)}): "
                "use another workdir, or the same recipe"
            )

    def record(self, recipe: Mapping[str, Any], *, program: str, flags: Mapping[str, Any]) -> None:
        """Makes the folder and writes its config file, unless a run with checkpoints has one.

        Args:
          program: "tpuloop", or the script whose model and data the run uses.
          flags: what else was asked for on the command line.

        Raises:
          UsageError: where the folder cannot be written.
        """
        try:
            tf.io.gfile.makedirs(self.events)
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(f"--workdir={self.path} cannot be written: {first_line(error)}") from error
        if self.committed_steps():
            return
        config = {
            "recipe": recipe,
            "program": program,
            "flags": flags,
            "versions": {
                "tpuloop": tpuloop.__version__,
                "tensorflow": tf.__version__,
                "python": platform.python_version(),
            },
        }
        path = os.path.join(self.path, CONFIG_FILE)
        try:
            tf.io.gfile.makedirs(self.path)
            with tf.io.gfile.GFile(f"{path}.writing", "w") as file:
                file.write(json.dumps(config, indent=1, sort_keys=True) + "\n")
            tf.io.gfile.rename(f"{path}.writing", path, overwrite=True)
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(f"--workdir={self.path} cannot be written: {first_line(error)}") from error

    def finished_step(self, target: int) -> Optional[int]:
        """The step of the newest checkpoint if it is intact and the run ended with it, else None."""
        steps = self.committed_steps()
        if not steps:
            return None
        try:
            record = commit.read_commit(self.checkpoints, steps[-1])
        except commit.Unreachable:
            raise
        except commit.CheckpointError:
            return None
        if record.get("owed"):
            return None  # It was stopped before its last evaluation.
        ended = record.get("finished_target") == [target, None]
        return steps[-1] if steps[-1] >= target or ended else None
