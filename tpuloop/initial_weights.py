"""Published weights, or those of another run, as the initial values of a model.

Not called init_from, as its function is: `tpuloop.init_from` would then be either of them, whichever came last.
"""

import dataclasses
import logging
import os
from typing import Any

from tpuloop import gcs_plugin
from tpuloop.errors import UsageError
from tpuloop.paths import normalised

logger = logging.getLogger("tpuloop")


def init_from(model: Any, path: str) -> Any:
    """Gives a model's variables the values of a file, matched by name.

    A classification head ("logits") of another number of classes stays as it is, as does any head that the file has
    not. All else that the file should have and has not, and the other way round, is warned of by name. Where this
    raises, the model stays as it is.

    Args:
      model: a built Keras model, on one replica or several.
      path: a `.safetensors` file, a Keras `.h5` file, a TensorFlow checkpoint, or a folder with one of them, by the
        names of a layout that is known: torchvision's or Keras Applications' ResNet, Hugging Face's or the original
        BERT, or those of the model's own variables. Also the folder of a run of tpuloop, for its newest checkpoint, or
        one of its `checkpoints/step-*`; of a run with `ema_decay` the moving averages are taken.

    Returns:
      A report, with the names of what was `loaded`, is `new`, and was `unused`, and a `summary(path)` in one line.

    Raises:
      UsageError: naming what is wrong: with the path or file, or with a variable's size.
    """
    from tpuloop.checkpoint.commit import CheckpointError
    from tpuloop.checkpoint.run_weights import find_run_weights
    from tpuloop.models.weights import files
    from tpuloop.models.weights.assign import assign
    from tpuloop.models.weights.own_names import LAYOUT
    from tpuloop.models.weights.tensorflow_checkpoint import TensorFlowCheckpoint

    path = normalised(path)
    gcs_plugin.avoid_faults(os.environ)
    try:
        saved = find_run_weights(path)
        if saved is None:
            report = assign(model, files.find(path).open())
        else:
            values = TensorFlowCheckpoint(saved.prefix, names=saved.names)
            report = assign(model, values, layout=dataclasses.replace(LAYOUT, title=saved.title))
    except (ValueError, CheckpointError) as error:
        raise refused(path, error) from error
    for line in report.warnings(path):
        logger.warning("init_from: %s", line)
    return report


def refused(path: str, error: Exception) -> UsageError:
    """The error of `init_from` for one of what it calls."""
    what = str(error)
    return UsageError(f"init_from {path}: {what}" if path not in what else f"init_from: {what}")
