"""`tpuloop predict`: writes the outputs of a run's model to a file."""

import logging
import os
from typing import Any, Dict, Optional, Tuple

import numpy as np
from absl import flags

from tpuloop.commands import restored
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")

SUMMARY = "writes a model's outputs for its held-out data, or for arrays of your own, to a file"

_FORMATS = (".npz", ".csv")


def define_flags() -> None:
    """The flags of the command."""
    restored.define_restore_flags()
    flags.DEFINE_string("input", None, "File of examples (.npz with an array x); by default the held-out data.")
    flags.DEFINE_string("output", None, "File to write, .npz or .csv; by default WORKDIR/predictions.npz.")
    flags.DEFINE_integer(
        "global_batch", None, "Examples a step; by default as in training. Does not change the result."
    )


def run() -> int:
    """Predicts, writes the file, and prints its name."""
    if not FLAGS.workdir:
        raise UsageError("--workdir is missing: give the folder of a run")
    output = FLAGS.output or os.path.join(FLAGS.workdir, "predictions.npz")
    if os.path.splitext(output)[1] not in _FORMATS:
        raise UsageError(f"--output={output}: the file must end in {' or '.join(_FORMATS)}")
    if not os.path.isdir(os.path.dirname(output) or "."):
        raise UsageError(f"--output={output}: there is no folder {os.path.dirname(output)}")
    given = None if FLAGS.input is None else _read_input(FLAGS.input)
    run_ = restored.restore_run()
    data, labels = _held_out(run_) if given is None else (given, None)
    _check_fits(data, run_.loop.model, source=FLAGS.input or "the held-out data")
    outputs = run_.loop.predict(data, batch_size=restored.batch_size(data, run_.recipe))
    _write(output, outputs, labels)
    logger.info("outputs are the model's own: logits, for the models of the registry")
    print(f"wrote {_count(outputs)} predictions at step {run_.step} to {output}")
    return 0


def _read_input(path: str) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"--input={path} is no readable .npz file: {str(error).splitlines()[0]}") from error
    if "x" not in arrays:
        raise UsageError(f"--input={path} has no array 'x'; its arrays are {', '.join(sorted(arrays)) or 'none'}")
    return arrays["x"]


def _held_out(run_: restored.RestoredRun) -> Tuple[Any, Optional[np.ndarray]]:
    """The held-out data and, where they are at hand as arrays, its labels."""
    evaluation = run_.data_sets.evaluation
    if evaluation is None:
        raise UsageError(f"the data {run_.recipe.data['name']!r} has nothing held out: give --input=FILE.npz")
    arrays = getattr(evaluation, "arrays", None)
    return evaluation, arrays[1] if isinstance(arrays, tuple) and len(arrays) > 1 else None


def _check_fits(data: Any, model: Any, *, source: str) -> None:
    """Compares arrays with the model's one input, before anything is compiled."""
    if not isinstance(data, np.ndarray) or len(model.inputs or ()) != 1:
        return
    expected = tuple(model.inputs[0].shape[1:])
    if data.ndim != len(expected) + 1 or any(e not in (None, d) for e, d in zip(expected, data.shape[1:])):
        raise UsageError(f"{source}: x has the shape {data.shape}, and the model takes (examples, {str(expected)[1:]}")
    if not len(data):
        raise UsageError(f"{source}: x holds 0 examples")
    if data.dtype.kind not in "biuf":
        raise UsageError(f"{source}: x is of type {data.dtype}, and the model takes numbers")


def _named(outputs: Any) -> Dict[str, np.ndarray]:
    """Outputs by name; one alone is called "predictions"."""
    if isinstance(outputs, dict):
        return dict(outputs)
    if isinstance(outputs, (tuple, list)):
        return {f"predictions_{index}": output for index, output in enumerate(outputs)}
    return {"predictions": outputs}


def _count(outputs: Any) -> int:
    return len(next(iter(_named(outputs).values())))


def _write(path: str, outputs: Any, labels: Optional[np.ndarray]) -> None:
    """Writes the whole file or nothing."""
    arrays = _named(outputs)
    if labels is not None:
        arrays["labels"] = labels
    unfinished = f"{path}.writing"
    try:
        with open(unfinished, "wb") as file:
            if path.endswith(".npz"):
                np.savez(file, **arrays)
            else:
                columns = [name_and_column for item in arrays.items() for name_and_column in _columns(*item)]
                header = ",".join(name for name, _ in columns)
                np.savetxt(
                    file, np.stack([c for _, c in columns], 1), delimiter=",", header=header, comments="", fmt="%.9g"
                )
        os.replace(unfinished, path)
    except OSError as error:
        raise UsageError(f"--output={path} cannot be written: {error.strerror}") from error


def _columns(name: str, array: np.ndarray) -> Any:
    """An array as columns of one number an example."""
    flat = np.reshape(array, [len(array), -1]).astype(np.float64)
    if flat.shape[1] == 1 and array.ndim == 1:
        return [(name, flat[:, 0])]
    return [(f"{name}_{index}", flat[:, index]) for index in range(flat.shape[1])]
