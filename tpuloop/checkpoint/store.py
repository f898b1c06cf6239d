"""Saves and restores the objects of a run, newest valid checkpoint first."""

import logging
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import tensorflow as tf

from tpuloop import gcs_plugin
from tpuloop.checkpoint import commit, retention
from tpuloop.checkpoint.folders import PREFIX, clear_leftovers
from tpuloop.checkpoint.misfits import misfits, value_name
from tpuloop.checkpoint.names import variable_names
from tpuloop.checkpoint.tensors import check_tensors
from tpuloop.errors import UsageError, first_line
from tpuloop.paths import check_bucket, is_remote, normalised

logger = logging.getLogger("tpuloop")

_NAMED_MISFITS = 5


class CheckpointStore:
    """The checkpoints of one run.

    Args:
      directory: where they stand, usually WORKDIR/checkpoints; may be a `gs://` path.
      objects: what to save and restore, by name; each a `tf.Module`, Keras object or variable.
      keep: checkpoints that stay, the newest ones.
    """

    def __init__(self, *, directory: str, objects: Mapping[str, Any], keep: int = 3):
        gcs_plugin.avoid_faults(os.environ)
        self._directory = normalised(directory)
        self._checkpoint = tf.train.Checkpoint(**objects)
        self._keep = keep
        self._restored: Optional[Tuple[str, Any]] = None  # Until `name_unused`: the folder and TensorFlow's status.

    def prepare(self) -> None:
        """Makes the folder and writes to it, so that a run does not find out at its first save that it cannot.

        Raises:
          UsageError: where it cannot be written to.
        """
        probe = os.path.join(self._directory, f".probe-{os.getpid()}")
        check_bucket(self._directory)
        try:
            tf.io.gfile.makedirs(self._directory)
            with tf.io.gfile.GFile(probe, "w") as file:
                file.write("probe")
            tf.io.gfile.remove(probe)
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(
                f"cannot write checkpoints to {self._directory}: {first_line(error)}; give another workdir"
            ) from error

    def save(self, step: int, record: Mapping[str, Any]) -> None:
        """Writes and commits the state after `step` steps, then deletes old ones.

        A checkpoint of the step that is there already is replaced: callbacks may have changed the state since.

        Args:
          record: plain JSON that `restore` gives back.

        Raises:
          CheckpointError: where it cannot be written or reads otherwise; earlier checkpoints are untouched.
        """
        try:
            record = {**record, "variables": variable_names(self._checkpoint)}
            commit.write_committed(self._directory, step, write=self._write, record=record, check=self._check)
        except (OSError, tf.errors.OpError) as error:
            raise commit.CheckpointError(f"cannot save step {step} in {self._directory}: {error}") from error
        try:
            # Later ones are damaged, or the run would have gone on from there: they must not push this one out.
            steps = [other for other in commit.committed_steps(self._directory) if other <= step]
            for old in retention.to_delete(steps, keep=self._keep):
                commit.delete(self._directory, old)
        except tf.errors.OpError as error:
            if not is_remote(self._directory):
                raise
            logger.warning("step %d is saved, and older checkpoints stay: %s", step, first_line(error))

    def restore(self, *, to_train: bool = True) -> Optional[Dict[str, Any]]:
        """Restores the newest valid checkpoint and returns its record; None where there is no checkpoint.

        A checkpoint that is damaged is named in a warning, and the one before it is used. One that does not fit is
        an error, and leaves every object as it was.

        Args:
          to_train: False leaves out what only training needs, such as the optimizer's state, where it was not built.

        Raises:
          CheckpointError: where there are checkpoints and none is valid, the newest does not fit the objects, or it
            cannot be found out whether there are any.
        """
        try:
            if to_train:  # Others may look while the run goes on, and must not touch what it is writing.
                clear_leftovers(self._directory)
            steps = commit.committed_steps(self._directory)
        except (OSError, tf.errors.OpError) as error:
            raise commit.CheckpointError(
                f"cannot look for checkpoints in {self._directory}: {first_line(error)}"
            ) from error
        for step in reversed(steps):
            try:
                record = commit.read_commit(self._directory, step)
            except commit.Unreachable:
                raise  # It may be whole, and an older one would take back what was done.
            except commit.CheckpointError as error:
                logger.warning("passing over a damaged checkpoint: %s", error)
                continue
            folder = os.path.join(self._directory, commit.folder_name(step))
            if "folder" in record:
                folder = os.path.join(folder, record["folder"])
            self._read(folder, to_train=to_train)
            return record
        if steps:
            raise commit.CheckpointError(
                f"none of the {len(steps)} checkpoints in {self._directory} is valid; the run does not start over by "
                "itself: restore the files, or move the folder away"
            )
        return None

    def name_unused(self) -> None:
        """Warns of values in the restored checkpoint that no object has taken, by name and once.

        To be called when the first step is over: what a step makes while it is traced, such as the state of an
        optimizer of one's own, takes its values then.
        """
        if self._restored is None:
            return
        folder, status = self._restored
        self._restored = None
        unused = _unused(status)
        if unused:
            logger.warning("%s holds values that nothing takes: %s", folder, ", ".join(unused))

    def _write(self, folder: str) -> None:
        self._checkpoint.write(os.path.join(folder, PREFIX))

    def _check(self, folder: str) -> None:
        check_tensors(os.path.join(folder, PREFIX))

    def _read(self, folder: str, *, to_train: bool) -> None:
        prefix = os.path.join(folder, PREFIX)
        try:
            found = misfits(prefix, self._checkpoint)
            if found:
                more = [f"and {len(found) - _NAMED_MISFITS} more"] if len(found) > _NAMED_MISFITS else []
                raise ValueError("; ".join(found[:_NAMED_MISFITS] + more))
            status = self._checkpoint.read(prefix)
            status.assert_existing_objects_matched()
            if not to_train:
                status.expect_partial()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            reason = str(error).strip().splitlines()
            raise commit.CheckpointError(
                f"{folder} does not fit this model: {reason[0] if reason else type(error).__name__}"
            ) from error
        if to_train:
            self._restored = (folder, status)


def _unused(status: Any) -> List[str]:
    """The names in a checkpoint that belong to no object. TensorFlow tells only whether there are any."""
    restored = status._checkpoint
    return [
        value_name(attribute.checkpoint_key)
        for number, node in enumerate(restored.object_graph_proto.nodes)
        for attribute in node.attributes
        if restored.object_by_proto_id.get(number) is None
    ]
