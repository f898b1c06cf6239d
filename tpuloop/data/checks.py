"""What is wrong with data, said before anything is compiled."""

from typing import Any, List, Optional, Tuple

import tensorflow as tf

from tpuloop.errors import UsageError


class DataError(UsageError):
    """Data that cannot be used as it is; the message names the feature, the number and the remedy."""


def check_batches(spec: Any, *, static_shapes: bool, strings: bool) -> Optional[int]:
    """Checks the element spec of a dataset of global batches.

    Args:
      spec: nested specs of one batch.
      static_shapes: every dimension must be known, as a TPU needs it.
      strings: whether string features may reach the model.

    Returns:
      The global batch size, or None where it is known only when a batch comes.

    Raises:
      DataError: naming the first feature that cannot be used.
    """
    leaves = named_specs(spec)
    if not leaves:
        raise DataError("the data has no features: its elements are empty")
    sizes = set()
    for name, leaf in leaves:
        if not isinstance(leaf, tf.TensorSpec):
            raise DataError(
                f"feature {name} is a {type(leaf).__name__}: only dense tensors can be split over replicas; "
                "map it with .to_tensor() or tf.sparse.to_dense"
            )
        if leaf.dtype == tf.string and not strings:
            raise DataError(
                f"feature {name} is a string, which the model does not take and accelerators cannot hold: "
                "turn it into numbers in the dataset (.map) or leave it out"
            )
        if leaf.shape.rank is None:
            raise DataError(f"feature {name} has an unknown rank: give it a shape in the dataset (tf.ensure_shape)")
        if leaf.shape.rank == 0:
            raise DataError(f"feature {name} has no batch dimension: call .batch(global_batch_size) on the dataset")
        if static_shapes and not leaf.shape.is_fully_defined():
            raise DataError(
                f"feature {name} has the shape {leaf.shape}, and a TPU needs every dimension: "
                "use .batch(n, drop_remainder=True), and pad what varies"
            )
        sizes.add(leaf.shape[0])
    if len(sizes - {None}) > 1:
        named = ", ".join(f"{name} {leaf.shape[0]}" for name, leaf in leaves)
        raise DataError(f"the features of a batch have different first dimensions: {named}")
    return next(iter(sizes - {None}), None)


def check_divides(batch_size: int, replicas: int) -> None:
    """Checks that a global batch gives every replica the same number of examples."""
    if batch_size < 1:
        raise DataError(f"the global batch is {batch_size}: it must be at least 1")
    if batch_size % replicas:
        lower = batch_size // replicas * replicas
        choices = f"{lower} or {lower + replicas}" if lower else str(replicas)
        raise DataError(f"the global batch of {batch_size} does not divide into {replicas} replicas: use {choices}")


def named_specs(spec: Any, prefix: str = "element") -> List[Tuple[str, tf.TypeSpec]]:
    """The leaves of an element spec with their names, such as `element[0]['ids']`."""
    if isinstance(spec, dict):
        return [pair for key in sorted(spec) for pair in named_specs(spec[key], f"{prefix}[{key!r}]")]
    if isinstance(spec, (tuple, list)):
        return [pair for i, item in enumerate(spec) for pair in named_specs(item, f"{prefix}[{i}]")]
    return [] if spec is None else [(prefix, spec)]
