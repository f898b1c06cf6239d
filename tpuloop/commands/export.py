"""`tpuloop export`: a SavedModel that needs nothing of tpuloop."""

import os
import shutil

from absl import flags

from tpuloop.commands import restored
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS

SUMMARY = "writes a run's model as a SavedModel that loads without tpuloop"


def define_flags() -> None:
    """The flags of the command."""
    restored.define_restore_flags()
    flags.DEFINE_string("output", None, "Folder to write; by default WORKDIR/export.")


def run() -> int:
    """Exports and prints the folder."""
    if not FLAGS.workdir:
        raise UsageError("--workdir is missing: give the folder of a run")
    output = (FLAGS.output or os.path.join(FLAGS.workdir, "export")).rstrip("/")
    if os.path.exists(output):
        raise UsageError(f"--output={output} exists: give the name of a new folder")
    run_ = restored.restore_run()
    unfinished = f"{output}.writing"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Without the optimizer: what serves needs no training state.
        run_.loop.model.save(unfinished, include_optimizer=False, save_format="tf")
        os.replace(unfinished, output)
    except OSError as error:
        raise UsageError(f"--output={output} cannot be written: {error.strerror}") from error
    print(f"exported step {run_.step} to {output}")
    return 0
