"""Reads a whole TensorFlow checkpoint to see whether it holds what was written."""

from typing import Dict, List

import tensorflow as tf

from tpuloop.checkpoint.commit import CheckpointError

_BYTES_AT_ONCE = 1 << 28


def check_tensors(prefix: str) -> None:
    """Reads every tensor of a checkpoint and compares it with its CRC32C.

    TensorFlow takes these checksums of the values in memory, before it hands them to the file system, and of every
    block of the index; its restore compares them. So a value that reached the file otherwise, or not at all, is found.
    Only the padding at the index's end has no checksum, and no meaning.

    Raises:
      CheckpointError: where the checkpoint cannot be read or differs.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        for names in _groups({name: dtypes[name].size * _product(shape) for name, shape in shapes.items()}):
            with tf.device("CPU:0"):
                tf.raw_ops.RestoreV2(
                    prefix=prefix,
                    tensor_names=names,
                    shape_and_slices=[""] * len(names),
                    dtypes=[dtypes[name] for name in names],
                )
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:  # The reader translates some.
        raise CheckpointError(f"{prefix} was read back and differs from what was written: {error}") from error


def _groups(sizes: Dict[str, int]) -> List[List[str]]:
    """Names in order, in groups of a few hundred megabytes: each read opens the files, and holds all it reads."""
    groups: List[List[str]] = [[]]
    held = 0
    for name in sorted(sizes):
        if groups[-1] and held + sizes[name] > _BYTES_AT_ONCE:
            groups.append([])
            held = 0
        groups[-1].append(name)
        held += sizes[name]
    return groups


def _product(shape: List[int]) -> int:
    return int(tf.TensorShape(shape).num_elements())
