"""--init_from: published weights, or those of another run, as the initial values of a model."""

import dataclasses
import os
from typing import Any, Dict, NamedTuple, Optional

from tpuloop import gcs_plugin
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import is_folder, is_remote, normalised


def init_from(model: Any, path: str) -> Any:
    """Gives a model's variables the values of a file, matched by name.

    A classification head ("logits") of another number of classes stays as it is. Where this raises, so does the model.

    Args:
      model: a built Keras model, on one replica or several.
      path: a `.safetensors` file, a Keras `.h5` file, a TensorFlow checkpoint, or a folder with one of them, by the
        names of a layout that is known: torchvision's or Keras Applications' ResNet, Hugging Face's or the original
        BERT, or those of the model's own variables. Also the folder of a run of tpuloop, for its newest checkpoint, or
        one of its `checkpoints/step-*`.

    Returns:
      A report, with the names of what was `loaded`, is `new`, and was `unused`, and a `summary(path)` in one line.

    Raises:
      UsageError: naming what is wrong: with the path or file, or with a variable's size.
    """
    from tpuloop.models.weights import files
    from tpuloop.models.weights.assign import assign
    from tpuloop.models.weights.own_names import LAYOUT
    from tpuloop.models.weights.tensorflow_checkpoint import TensorFlowCheckpoint

    path = normalised(path)
    gcs_plugin.avoid_faults(os.environ)
    saved = _saved_by_run(path)
    try:
        if saved is None:
            return assign(model, files.find(path).open())
        values = TensorFlowCheckpoint(saved.prefix, names=saved.names)
        return assign(model, values, layout=dataclasses.replace(LAYOUT, title=f"step {saved.step} of a run"))
    except ValueError as error:
        raise _refused(path, error) from error


def check_path(path: str) -> None:
    """Looks for a local path, and for what reads it, without TensorFlow.

    Raises:
      UsageError: where there is nothing that can be read.
    """
    path = normalised(path)
    if is_remote(path) or _looks_like_run(path):
        return  # To be seen when TensorFlow is there.
    from tpuloop.models.weights import files

    try:
        files.find(path)
    except ValueError as error:
        raise _refused(path, error) from error


def looks_new(workdir: str) -> bool:
    """Whether a local workdir has no checkpoints, found out without TensorFlow; no where it cannot be."""
    if is_remote(workdir):
        return False
    try:
        return not os.listdir(os.path.join(workdir, "checkpoints"))
    except FileNotFoundError:
        return True
    except OSError:
        return False  # What is wrong with the workdir is said later.


class _Saved(NamedTuple):
    """A run's checkpoint: its step, its TensorFlow checkpoint, and the names of the model's variables by their keys.

    An average of the weights that the run may keep as well is left out: it has the names of the weights.
    """

    step: int
    prefix: str
    names: Optional[Dict[str, str]]


def _saved_by_run(path: str) -> Optional[_Saved]:
    """What a path of a run, of its checkpoints or of one of them means; None where it is none of these.

    Raises:
      UsageError: for a run without a checkpoint that can be used.
    """
    import tensorflow as tf

    from tpuloop.checkpoint import commit
    from tpuloop.checkpoint.folders import PREFIX, STEP_FOLDER, is_committed

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
                    raise UsageError(f"init_from {path} holds no checkpoint yet: train there first")
                return None
            step = steps[-1]
        record = commit.read_commit(directory, step)
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(f"init_from {path} cannot be read: {first_line(error)}") from error
    except commit.CheckpointError as error:
        raise UsageError(f"init_from {path}: {first_line(error)}; name another step's folder") from error
    place = os.path.join(directory, commit.folder_name(step), record.get("folder", ""))
    names = record.get("variables")
    if names is not None:  # Earlier versions have not written them.
        names = {key: name for key, name in names.items() if key.startswith("loop/model/")}
    return _Saved(step, os.path.join(place, PREFIX), names)


def _looks_like_run(path: str) -> bool:
    if not os.path.isdir(path) or not os.access(path, os.R_OK):
        return False
    names = [os.path.basename(path.rstrip("/")), *os.listdir(path)]
    return any(name == "checkpoints" or name.startswith("step-") for name in names)


def _refused(path: str, error: Exception) -> UsageError:
    what = str(error)
    return UsageError(f"init_from {path}: {what}" if path not in what else f"init_from: {what}")
