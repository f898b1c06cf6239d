"""`tpuloop predict`: writes the outputs of a run's model to a file."""

import io
import logging
import os
import zipfile
from typing import Any, Dict, Tuple

import numpy as np
from absl import flags

from tpuloop import gcs_plugin
from tpuloop.commands import restored
from tpuloop.commands.predictions_file import FORMATS, contents, named_arrays
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import check_bucket, is_remote, normalised

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")

SUMMARY = "writes a model's outputs for its held-out data, or for arrays of your own, to a file"


def define_flags() -> None:
    """The flags of the command."""
    restored.define_restore_flags()
    flags.DEFINE_string(
        "input", None, "File of examples (.npz with an array x, or one for each input); by default the held-out data."
    )
    flags.DEFINE_string("output", None, "File to write, .npz or .csv; by default WORKDIR/predictions.npz.")
    flags.DEFINE_integer(
        "global_batch", None, "Examples a step; by default as in training. Does not change the result."
    )


def run() -> int:
    """Predicts, writes the file, and prints its name."""
    restored.check_workdir()
    output = normalised(FLAGS.output or os.path.join(FLAGS.workdir, "predictions.npz"))
    ending = os.path.splitext(output)[1]
    if ending not in FORMATS:
        raise UsageError(f"--output={output}: the file must end in {' or '.join(FORMATS)}")
    folder = os.path.dirname(output) or "."
    if not is_remote(folder) and not os.path.isdir(folder):
        raise UsageError(f"--output={output}: there is no folder {folder}")
    given = None if FLAGS.input is None else _read_input(normalised(FLAGS.input))
    run_ = restored.restore_run()
    from tpuloop.commands import assemble

    data, labels = _held_out(run_) if given is None else (_fitting(given, run_.loop.model), None)
    what = f"--input={FLAGS.input}" if FLAGS.input else "the held-out data"
    assemble.check_fits(data, run_.network, what=what, labels=False)
    outputs = run_.loop.predict(data, batch_size=restored.batch_size(data, run_.recipe))
    arrays = named_arrays(outputs, labels)
    _write(output, contents(arrays, ending))
    if run_.network.task is None:
        logger.info("outputs are the model's own: logits, for the models of the registry")
    print(f"wrote {len(next(iter(arrays.values())))} predictions at step {run_.step} to {output}")
    return 0


def _fitting(arrays: Dict[str, np.ndarray], model: Any) -> Any:
    """What a model takes of the arrays of a file: its inputs by their names, or x."""
    names = list(getattr(model, "input_names", ()))
    by_name = len(names) > 1 and set(names) <= set(arrays)
    data = {name: arrays[name] for name in names} if by_name else arrays.get("x")
    if data is None:
        several = f", nor one for each of the model's inputs, {', '.join(names)}" if len(names) > 1 else ""
        listed = ", ".join(sorted(arrays)) or "none"
        raise UsageError(f"--input={FLAGS.input} has no array 'x'{several}; its arrays are {listed}")
    for name, array in data.items() if isinstance(data, dict) else [("x", data)]:
        if not array.ndim or not len(array):
            raise UsageError(f"--input={FLAGS.input} holds no examples: {name} has the shape {array.shape}")
    return data


def _read_input(path: str) -> Dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(_remote_content(path)) if is_remote(path) else path, allow_pickle=False) as file:
            return dict(file)
    except OSError as error:
        raise UsageError(f"--input={path} cannot be read: {error.strerror or error}") from error
    except UsageError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise UsageError(f"--input={path} is no .npz file: write one with np.savez(file, x=examples)") from error


def _remote_content(path: str) -> bytes:
    import tensorflow as tf

    gcs_plugin.avoid_faults(os.environ)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return bytes(file.read())
    except tf.errors.OpError as error:
        raise UsageError(f"--input={path} cannot be read: {first_line(error)}") from error


def _held_out(run_: restored.RestoredRun) -> Tuple[Any, Any]:
    """The held-out data and, where they are at hand as arrays, its labels."""
    evaluation = run_.data_sets.evaluation
    if evaluation is None:
        raise UsageError(f"the data {run_.recipe.data['name']!r} has nothing held out: give --input=FILE.npz")
    from tpuloop.data.source import as_source

    arrays = getattr(as_source(evaluation), "arrays", None)
    return evaluation, arrays[1] if isinstance(arrays, tuple) and len(arrays) > 1 else None


def _write(path: str, contents: bytes) -> None:
    """Writes the whole file or nothing."""
    import tensorflow as tf

    check_bucket(path)
    unfinished = f"{path}.writing"
    try:
        with tf.io.gfile.GFile(unfinished, "wb") as file:
            file.write(contents)
        tf.io.gfile.rename(unfinished, path, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(f"--output={path} cannot be written: {first_line(error)}") from error
