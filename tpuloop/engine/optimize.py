"""From a loss to updated variables: the sum over replicas first, then one clip, then one update."""

from typing import List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tpuloop.engine.mean import Loss, Mean, parts_of

Gradient = Union[tf.Tensor, tf.IndexedSlices, None]


def create_weights(optimizer: tf.keras.optimizers.Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Makes the optimizer's counter, hyperparameters and slots, which a traced step cannot make on several replicas."""
    if not isinstance(optimizer, tf.keras.optimizers.experimental.Optimizer):
        optimizer._create_all_weights(variables)
    elif variables:
        optimizer.build(variables)


def minimize(
    loss: Loss,
    *,
    tape: tf.GradientTape,
    variables: Sequence[tf.Variable],
    optimizer: tf.keras.optimizers.Optimizer,
    clip_norm: Optional[float] = None,
) -> Optional[tf.Tensor]:
    """One optimizer update with the gradient of the loss's global mean. Replica context.

    Args:
      loss: made while `tape` was recording.
      tape: may be persistent.
      variables: those to update; one that the loss does not reach keeps its value, and Keras warns.
      optimizer: any Keras optimizer; the scale of a `LossScaleOptimizer` is applied and taken off here.
      clip_norm: the largest global norm of the summed gradient, or None.

    Returns:
      The global norm before clipping where `clip_norm` is given, else None.
    """
    scale = loss_scale(optimizer)
    weighted = [(part, (1.0 if scale is None else scale) / global_weight(part)) for part in parts_of(loss)]
    gradients = weighted_gradients(weighted, tape, variables)
    gradients = sum_over_replicas(gradients)
    return apply_summed(
        gradients, variables, optimizer=optimizer, factor=None if scale is None else 1.0 / scale, clip_norm=clip_norm
    )


def weighted_gradients(
    weighted: Sequence[Tuple[Mean, Union[float, tf.Tensor]]], tape: tf.GradientTape, variables: Sequence[tf.Variable]
) -> List[Gradient]:
    """This replica's gradients of the sum over all pairs `(mean, factor)` of `factor * sum(weights * values)`.

    The weights enter as the upstream gradients of the values, so that the sums themselves need not be on the tape.
    """
    values = [mean.values for mean, _ in weighted]
    return tape.gradient(values, variables, output_gradients=[_upstream(*pair) for pair in weighted])


def _upstream(mean: Mean, factor: Union[float, tf.Tensor]) -> tf.Tensor:
    factor = tf.cast(factor, mean.values.dtype)
    return tf.fill(tf.shape(mean.values), factor) if mean.weights is None else mean.weights * factor


def global_weight(mean: Mean) -> Union[float, tf.Tensor]:
    """The sum of the mean's weights over all replicas; a Python number where the shapes are static.

    A sum of 0 (no example counts anywhere) is given as infinity: the gradient it divides becomes 0, not NaN.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    static = mean.static_weight()
    # An eager tensor always has a static shape, also where the replicas' parts differ.
    if static and (replicas == 1 or not tf.executing_eagerly()):
        return float(static * replicas)
    weight = mean.sums()[1]
    if replicas > 1:
        weight = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, weight)
    return tf.where(weight > 0, weight, float("inf"))


def sum_over_replicas(gradients: Sequence[Gradient]) -> List[Gradient]:
    """The gradients summed over all replicas, None where there is none. Replica context."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return list(gradients)
    present = [gradient for gradient in gradients if gradient is not None]
    if not present:
        return list(gradients)
    summed = iter(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, present))
    return [None if gradient is None else next(summed) for gradient in gradients]


def apply_summed(
    gradients: Sequence[Gradient],
    variables: Sequence[tf.Variable],
    *,
    optimizer: tf.keras.optimizers.Optimizer,
    factor: Union[None, float, tf.Tensor] = None,
    clip_norm: Optional[float] = None,
) -> Optional[tf.Tensor]:
    """Applies gradients that are already sums over all replicas. Replica context.

    Args:
      factor: multiplies each gradient first; None for 1.
      clip_norm: as in `minimize`; the norm is that of the sum, so it is the same on every replica.
    """
    gradients = list(gradients) if factor is None else scaled(gradients, factor)
    norm = None
    if clip_norm is not None:
        gradients = [_summed_rows(gradient) for gradient in gradients]
        gradients, norm = tf.clip_by_global_norm(gradients, clip_norm)
    pairs = zip(gradients, variables)
    if isinstance(optimizer, tf.keras.optimizers.experimental.Optimizer):
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
    else:
        optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
    return norm


def loss_scale(optimizer: tf.keras.optimizers.Optimizer) -> Optional[tf.Tensor]:
    """The factor that keeps float16 gradients above underflow, or None where the optimizer has none."""
    if not hasattr(optimizer, "get_scaled_loss"):
        return None
    # Asked for through both methods, since Keras warns where only one of them was used.
    scale = optimizer.get_scaled_loss(tf.constant(1.0))
    optimizer.get_unscaled_gradients([tf.constant(1.0)])
    return scale


def scaled(gradients: Sequence[Gradient], factor: Union[float, tf.Tensor]) -> List[Gradient]:
    """Each gradient times `factor`; slices stay slices."""
    return [_scaled(gradient, factor) for gradient in gradients]


def _scaled(gradient: Gradient, factor: Union[float, tf.Tensor]) -> Gradient:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_scaled(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def _summed_rows(gradient: Gradient) -> Gradient:
    """Slices with every row once. A norm of slices that hold a row in parts is not that of the gradient."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
