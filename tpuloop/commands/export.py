"""`tpuloop export`: a SavedModel that needs nothing of tpuloop."""

import os

from absl import flags

from tpuloop.commands import restored
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import check_bucket, is_remote, normalised

FLAGS = flags.FLAGS

SUMMARY = "writes a run's model as a SavedModel that loads without tpuloop"


def define_flags() -> None:
    """The flags of the command."""
    restored.define_restore_flags()
    flags.DEFINE_string("output", None, "Folder to write; by default WORKDIR/export.")


def run() -> int:
    """Exports and prints the folder."""
    restored.check_workdir()
    output = normalised(FLAGS.output or os.path.join(FLAGS.workdir, "export")).rstrip("/")
    if os.path.exists(output):  # Before TensorFlow is loaded, which can look into object stores as well.
        raise UsageError(f"--output={output} exists: give the name of a new folder")
    run_ = restored.restore_run()
    _save(run_, output)
    print(f"exported step {run_.step} to {output}")
    return 0


def _save(run_: restored.RestoredRun, output: str) -> None:
    """Writes the whole folder or nothing; where the file system renames no folders, a folder that does not load."""
    import tensorflow as tf

    try:
        exists = tf.io.gfile.exists(output)
    except tf.errors.OpError as error:
        raise UsageError(f"--output={output} cannot be written: {first_line(error)}") from error
    if exists:
        raise UsageError(f"--output={output} exists: give the name of a new folder")
    check_bucket(output)
    model = run_.loop.model
    if not model.built:
        # Its shapes come with data, as in training; what was restored is then put in its place.
        run_.loop.predict(
            run_.data_sets.train, batch_size=restored.batch_size(run_.data_sets.train, run_.recipe), steps=1
        )
    unfinished = output if is_remote(output) else f"{output}.writing"
    try:
        if tf.io.gfile.exists(unfinished):
            tf.io.gfile.rmtree(unfinished)
        # Without the optimizer: what serves needs no training state.
        with run_.loop.averaged_weights():
            model.save(unfinished, include_optimizer=False, save_format="tf")
        if unfinished != output:
            tf.io.gfile.rename(unfinished, output)
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(f"--output={output} cannot be written: {first_line(error)}") from error
