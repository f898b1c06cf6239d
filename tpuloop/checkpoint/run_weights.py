"""Which of a run's checkpoints has the weights that another model may start from, and by which names."""

import os
from typing import Dict, NamedTuple, Optional

import tensorflow as tf

from tpuloop.checkpoint import commit
from tpuloop.checkpoint.folders import PREFIX, STEP_FOLDER, folder_name, is_committed
from tpuloop.errors import first_line
from tpuloop.paths import is_folder

_WEIGHTS = "loop/model/"
_AVERAGES = "loop/weight_averages/"
_AVERAGE_OF = "average/"  # Before the weight's name in its average's.


class RunWeights(NamedTuple):
    """Where a run's weights are.

    Attributes:
      step: steps done.
      prefix: of the TensorFlow checkpoint.
      names: the names of the weights by their keys in it; None where the checkpoint was written before there were any
        in commit files.
      averaged: whether the keys are of moving averages of the weights.
    """

    step: int
    prefix: str
    names: Optional[Dict[str, str]]
    averaged: bool

    @property
    def title(self) -> str:
        """In words."""
        return f"{'moving averages of ' if self.averaged else ''}step {self.step} of a run"


def find_run_weights(path: str) -> Optional[RunWeights]:
    """What the workdir of a run, the folder of its checkpoints or that of one of them means; None for anything else.

    Where the run keeps moving averages of its weights, which are what it is evaluated with, it is they.

    Raises:
      CheckpointError: for a run without a checkpoint that can be used.
    """
    folder = path.rstrip("/")
    directory, name = os.path.split(folder)
    match = STEP_FOLDER.match(name)
    try:
        if match and is_committed(folder):
            step = int(match.group(1))
        else:
            inner = os.path.join(folder, "checkpoints")
            directory = inner if is_folder(inner) else folder
            steps = commit.committed_steps(directory)
            if not steps:
                if directory == inner or match:
                    raise commit.CheckpointError(f"{path} holds no checkpoint yet: train there first")
                return None
            step = steps[-1]
    except (OSError, tf.errors.OpError) as error:
        raise commit.CheckpointError(f"{path} cannot be read: {first_line(error)}") from error
    try:
        record = commit.read_commit(directory, step)
    except commit.CheckpointError as error:
        raise commit.CheckpointError(f"{first_line(error)}; name another step's folder") from error
    prefix = os.path.join(directory, folder_name(step), record.get("folder", ""), PREFIX)
    names = record.get("variables")
    if names is None:
        return RunWeights(step, prefix, None, averaged=False)
    weights = {key: name for key, name in names.items() if key.startswith(_WEIGHTS)}
    # Before the first step they are no averages of anything.
    averages = {name: key for key, name in names.items() if key.startswith(_AVERAGES)} if step else {}
    chosen = {averages.get(f"{_AVERAGE_OF}{name}", key): name for key, name in weights.items()}
    return RunWeights(step, prefix, chosen, averaged=chosen != weights)
