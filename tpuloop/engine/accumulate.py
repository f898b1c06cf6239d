"""Gradient accumulation: one update from the gradient of a batch too large to hold at once."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tpuloop.engine.mean import Loss, Mean, SumOfMeans, parts_of
from tpuloop.engine.optimize import Gradient, apply_summed, loss_scale, scaled, sum_over_replicas, weighted_gradients
from tpuloop.engine.step import in_parts
from tpuloop.errors import UsageError

Forward = Callable[[Any], Tuple[Loss, Dict[str, Mean]]]


def accumulated_update(
    batch: Any,
    *,
    parts: int,
    forward: Forward,
    variables: Sequence[tf.Variable],
    optimizer: tf.keras.optimizers.Optimizer,
    clip_norm: Optional[float],
) -> Tuple[Dict[str, Loss], Optional[tf.Tensor]]:
    """Splits a replica's batch, accumulates the parts' gradients, and applies their sum once. Replica context.

    The weights of all parts and replicas are summed before the division, so that the update is that of the whole
    batch's mean, however the weights lie. A sum of several means takes a pass backward and a set of accumulated
    gradients for each, since what each is divided by is known only in the end.

    Args:
      batch: nested tensors; the first dimension, the same for all, must be a static multiple of `parts`.
      parts: how many to split into.
      forward: maps a part to its loss (named "loss" in the result) and to other named Means.

    Returns:
      The named Means of the whole batch, and the global norm as `minimize` returns it.

    Raises:
      ValueError: for a batch that does not split.
    """
    size = tf.nest.flatten(batch)[0].shape[0]
    if size is None or size % parts:
        raise UsageError(
            f"accumulate_steps={parts} does not divide a replica's batch of {size or 'unknown size'}: "
            "choose a global batch that is a static multiple of replicas x accumulate_steps"
        )
    rows = size // parts
    scale = loss_scale(optimizer)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    totals: List[List[Gradient]] = []  # For each mean of the loss.
    counts: List[float] = []
    kept: Dict[str, List[Loss]] = {}
    before: Sequence[tf.Tensor] = []
    for index in range(parts):
        # One part after the other: side by side, they would need the memory that accumulation is to save.
        with tf.control_dependencies(before):
            part = _rows(batch, index * rows, rows)
        with tf.GradientTape(persistent=True) as tape, in_parts(parts):
            loss, others = forward(part)
        if not counts:
            # Keeps float16 gradients in range as the mean's would be; the exact division comes after the sum. It must
            # be one number for all replicas, and the parts of eager ones may differ in size.
            uneven = tf.executing_eagerly() and replicas > 1
            sizes = [mean.values.shape.num_elements() or rows for mean in parts_of(loss)]
            counts = [float(parts if uneven else size * parts) for size in sizes]
        gradients = [
            weighted_gradients([(mean, (1.0 if scale is None else scale) / count)], tape, variables)
            for mean, count in zip(parts_of(loss), counts)
        ]
        del tape
        totals = [_sums(*pair) for pair in zip(totals, gradients)] if totals else gradients
        before = [tensor for total in totals for tensor in _tensors(total)]
        for name, mean in {"loss": loss, **others}.items():
            kept.setdefault(name, []).append(mean)
    means = {name: _joined(means) for name, means in kept.items()}
    weights = tf.stack([mean.sums()[1] for mean in parts_of(means["loss"])])
    if replicas > 1:
        weights = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, weights)
    factors = tf.math.divide_no_nan(tf.constant(counts, weights.dtype), weights) / (1.0 if scale is None else scale)
    total = scaled(totals[0], factors[0])
    for index in range(1, len(totals)):
        total = _sums(total, scaled(totals[index], factors[index]))
    norm = apply_summed(sum_over_replicas(total), variables, optimizer=optimizer, clip_norm=clip_norm)
    return means, norm


def _rows(batch: Any, start: int, count: int) -> Any:
    return tf.nest.map_structure(lambda leaf: tf.identity(leaf[start : start + count]), batch)


def _sums(old: Sequence[Gradient], new: Sequence[Gradient]) -> List[Gradient]:
    return [_sum(*pair) for pair in zip(old, new)]


def _tensors(gradients: Sequence[Gradient]) -> List[tf.Tensor]:
    present = [gradient for gradient in gradients if gradient is not None]
    return list(tf.nest.flatten(present, expand_composites=True))


def _sum(old: Gradient, new: Gradient) -> Gradient:
    """The sum; of slices it stays slices, since some optimizers leave the other rows alone."""
    if old is None or new is None:
        return new if old is None else old
    if isinstance(old, tf.IndexedSlices) and isinstance(new, tf.IndexedSlices):
        parts = zip((old.values, old.indices), (new.values, new.indices))
        return tf.IndexedSlices(*(tf.concat(pair, axis=0) for pair in parts), old.dense_shape)
    return tf.convert_to_tensor(old) + tf.convert_to_tensor(new)


def _joined(means: Sequence[Any]) -> Any:
    """One Mean over the elements of several; of sums, a sum of what their parts make."""
    if isinstance(means[0], SumOfMeans):
        return SumOfMeans(**{name: _joined([loss.parts[name] for loss in means]) for name in means[0].parts})
    values = [tf.reshape(mean.values, [-1]) for mean in means]
    weights = [tf.ones_like(mean.values) if mean.weights is None else mean.weights for mean in means]
    return Mean(tf.concat(values, axis=0), tf.concat([tf.reshape(weight, [-1]) for weight in weights], axis=0))
