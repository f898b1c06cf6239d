"""What a Keras model was compiled with, as per-example losses and maskable metrics.

`model.compiled_loss(...)` returns one scalar a replica, already averaged, so a global mean cannot be had from it. Here
the same `Loss` objects give one value per example. Keras's convention is kept: a loss is averaged over the examples,
`sample_weight` and Keras masks multiply values without entering the denominator (`SUM_OVER_BATCH_SIZE`).
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import tensorflow as tf
from keras.engine import compile_utils

from tpuloop.engine.autograph import converted, converting_for_keras
from tpuloop.engine.mean import Mean
from tpuloop.engine.step import batch_parts, example_mask
from tpuloop.errors import UsageError


class Targets(NamedTuple):
    """What metrics need of a forward pass: labels, outputs and sample weights, each of the model's structure."""

    y_true: Any
    y_pred: Any
    sample_weight: Any


def build_compiled(model: tf.keras.Model, x: Any, y: Any, sample_weight: Any) -> None:
    """Creates the model's variables, loss objects and metrics before a step is traced. Cross-replica, in scope.

    Args:
      x, y, sample_weight: `tf.TensorSpec`s of a batch, each of its structure, or None.
    """
    y_pred = _symbolic_outputs(model, x)
    if _has_loss(model) and not model.compiled_loss.built:
        model.compiled_loss.build(y_pred)
    metrics = model.compiled_metrics
    if metrics is not None and not metrics.built and y is not None:
        # A copy, since Keras enters missing outputs into a dict of labels.
        metrics.build(y_pred, metrics._conform_to_outputs(y_pred, dict(y) if isinstance(y, dict) else y))


def _symbolic_outputs(model: tf.keras.Model, x: Any) -> Any:
    """The outputs without values. A functional model has them; any other is called on placeholders, which builds it."""
    if model.built and getattr(model, "_is_graph_network", False):
        return model._nested_outputs
    outputs = []

    @tf.function(autograph=False)
    def forward(features):
        with converting_for_keras():
            outputs.append(model(features, training=False))

    forward.get_concrete_function(tf.nest.map_structure(_any_batch, x))
    return outputs[0]


def _any_batch(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def compiled_loss(model: tf.keras.Model, targets: Targets) -> Tuple[Mean, Dict[str, Mean]]:
    """The total loss without `model.losses`, and for several outputs the loss of each, named as Keras names them.

    Replica context. Every Mean has one value per example, shape [batch].

    Raises:
      ValueError: where the model has no compiled loss, or an output's loss is not per example.
    """
    if not _has_loss(model) and model.losses:  # It trains on what its layers add.
        return Mean(tf.zeros(tf.shape(tf.nest.flatten(targets.y_pred)[0])[:1])), {}
    if not _has_loss(model):
        raise UsageError(
            f"the model {model.name!r} has no loss: compile it with one, give TrainLoop(model, loss=...), "
            "or override forward_loss or train_step"
        )
    container = model.compiled_loss
    if not container.built:
        container.build(targets.y_pred)
    y_true = tf.nest.flatten(container._conform_to_outputs(targets.y_pred, targets.y_true))
    y_pred = tf.nest.flatten(tf.nest.map_structure(_at_least_float32, targets.y_pred))
    sample_weight = tf.nest.flatten(container._conform_to_outputs(targets.y_pred, targets.sample_weight))

    total: Optional[tf.Tensor] = None
    by_output: Dict[str, Mean] = {}
    outputs = zip(container._output_names, y_true, y_pred, sample_weight, container._losses, container._loss_weights)
    for name, labels, predictions, weights, loss, loss_weight in outputs:
        if labels is None or loss is None:
            continue
        values = _per_example(loss, labels, predictions, weights)
        by_output[f"{name}_loss"] = Mean(values)
        if loss_weight is not None:
            values = values * tf.cast(loss_weight, values.dtype)
        total = values if total is None else total + values
    if total is None:
        raise UsageError(
            f"none of the outputs {list(container._output_names)} of the model {model.name!r} has a loss and a label"
        )
    return Mean(total), by_output if len(container._output_names) > 1 else {}


def update_compiled_metrics(model: tf.keras.Model, targets: Targets) -> None:
    """Updates the compiled metrics; padded rows do not count, in plain metrics either. Replica context."""
    container = model.compiled_metrics
    if container is None:
        return
    mask = example_mask()
    y_pred = tf.nest.map_structure(_at_least_float32, targets.y_pred)
    if mask is not None:
        weights = tf.nest.flatten(container._conform_to_outputs(y_pred, targets.sample_weight))
        masked = [_with_mask(*pair, mask) for pair in zip(tf.nest.flatten(y_pred), weights)]
        y_pred = tf.nest.pack_sequence_as(y_pred, masked)
    container.update_state(targets.y_true, y_pred, targets.sample_weight)


def _has_loss(model: tf.keras.Model) -> bool:
    container = model.compiled_loss
    return container is not None and any(loss is not None for loss in tf.nest.flatten(container._user_losses))


def _per_example(
    loss: tf.keras.losses.Loss, labels: tf.Tensor, predictions: tf.Tensor, weights: Optional[tf.Tensor]
) -> tf.Tensor:
    """One weighted float32 value per example, shape [batch]; their plain mean is what Keras calls the loss."""
    expanded, matched, weights = compile_utils.match_dtype_and_rank(labels, predictions, weights)
    # Keras gives labels of shape [batch] a second dimension, which this loss would only take off again.
    if getattr(loss, "fn", None) is not tf.keras.losses.sparse_categorical_crossentropy:
        labels = expanded
    weights = compile_utils.apply_mask(matched, weights, compile_utils.get_mask(predictions))
    # `call` and not `__call__`: the latter reduces, and under a strategy refuses the AUTO reduction.
    values = converted(loss.call)(labels, matched)
    if values.shape.rank == 0:
        raise UsageError(
            f"the loss {loss.name!r} gives one scalar for the whole batch, so it cannot be averaged over replicas: "
            "return one value per example, or override forward_loss"
        )
    values = Mean(values).values
    if weights is not None:
        weights = tf.cast(weights, values.dtype)
        if weights.shape.rank > values.shape.rank:
            weights = tf.squeeze(weights, axis=-1)
        values = Mean(values, weights).weighted_values()
    inner = list(range(1, values.shape.rank))
    if loss.reduction != tf.keras.losses.Reduction.SUM:
        return tf.reduce_mean(values, axis=inner) if inner else values
    # The mean over examples of (size of the whole batch x value) is the sum that SUM asks for.
    values = tf.reduce_sum(values, axis=inner) if inner else values
    mask = example_mask()
    count = tf.cast(tf.shape(values)[0] if mask is None else tf.reduce_sum(mask), values.dtype)
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        count = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, count)
    return values * count * batch_parts()


def _at_least_float32(output: tf.Tensor) -> tf.Tensor:
    """`output` as losses and metrics may take it: means over its last dimension are made in its own dtype."""
    if output.dtype not in (tf.float16, tf.bfloat16):
        return output
    return _like(output, tf.cast(output, tf.float32))


def _with_mask(output: tf.Tensor, weights: Optional[tf.Tensor], mask: tf.Tensor) -> tf.Tensor:
    """`output` with the rows' mask joined to its Keras mask, which is what Keras's containers weight metrics by."""
    inner = compile_utils.get_mask(output)
    mask = tf.cast(mask, tf.bool)
    if inner is not None:
        mask = tf.logical_and(tf.cast(inner, tf.bool), _spread(mask, inner))
    elif weights is not None and weights.shape.rank > 1 and weights.shape[-1] != 1:
        mask = _spread(mask, weights)  # Keras multiplies weights by masks of the same rank only.
    masked = _like(output, tf.identity(output))
    masked._keras_mask = mask
    return masked


def _like(output: tf.Tensor, copy: tf.Tensor) -> tf.Tensor:
    """`copy` with what Keras's layers attached to `output`: its mask, and the logits that it is the softmax of."""
    for name in ("_keras_mask", "_keras_logits"):
        value = getattr(output, name, None)
        if value is not None:
            setattr(copy, name, tf.cast(value, copy.dtype) if name == "_keras_logits" else value)
    return copy


def _spread(mask: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """The rows' mask for every element of `like`."""
    mask = tf.reshape(mask, tf.concat([tf.shape(mask), tf.ones([tf.rank(like) - 1], tf.int32)], axis=0))
    return tf.broadcast_to(mask, tf.shape(like))
