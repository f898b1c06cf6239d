"""A multilayer perceptron."""

from typing import Optional, Sequence

import tensorflow as tf

from .checks import check_choice, check_share, is_size

_NORMS = {
    None: None,
    "batch": tf.keras.layers.BatchNormalization,
    "sync_batch": tf.keras.layers.experimental.SyncBatchNormalization,
    "layer": tf.keras.layers.LayerNormalization,
}


def mlp(
    *,
    input_shape: Sequence[int],
    num_classes: int,
    hidden: Sequence[int] = (64, 64),
    activation: str = "relu",
    dropout: float = 0.0,
    norm: Optional[str] = None,
) -> tf.keras.Model:
    """Dense layers over the flattened input, each with normalisation, activation and dropout in that order.

    Args:
      input_shape: of one example, without the batch.
      num_classes: width of the output.
      hidden: width of each hidden layer.
      activation: a Keras activation's name.
      dropout: the share of activations set to 0 while training, from 0 up to but not including 1.
      norm: None, "batch", "sync_batch" (statistics over all replicas) or "layer".

    Returns:
      A model from [batch, *input_shape] to float32 logits of shape [batch, num_classes].

    Raises:
      ValueError: for a value that makes no network.
    """
    check_choice("norm", norm, _NORMS)
    check_share("dropout", dropout)
    if not isinstance(hidden, (list, tuple)):
        raise ValueError(f"hidden must be a list of widths, such as (64, 64); it is {hidden!r}")
    if not all(map(is_size, [*hidden, num_classes])):
        raise ValueError(
            f"widths must be integers of at least 1; hidden is {tuple(hidden)}, num_classes is {num_classes!r}"
        )
    if not isinstance(input_shape, (list, tuple)) or not all(map(is_size, input_shape)):
        raise ValueError(
            f"input_shape must be a list of integers of at least 1, such as (8, 8, 1); it is {input_shape!r}"
        )
    inputs = tf.keras.Input(shape=tuple(input_shape), name="inputs")
    features = tf.keras.layers.Flatten()(inputs)
    for index, width in enumerate(hidden):
        features = tf.keras.layers.Dense(width, use_bias=norm is None, name=f"hidden_{index}")(features)
        if norm is not None:
            features = _NORMS[norm](name=f"norm_{index}")(features)
        features = tf.keras.layers.Activation(activation, name=f"activation_{index}")(features)
        if dropout:
            features = tf.keras.layers.Dropout(dropout, name=f"dropout_{index}")(features)
    # float32 under any precision policy: a softmax over bfloat16 logits loses its small probabilities.
    logits = tf.keras.layers.Dense(num_classes, dtype="float32", name="logits")(features)
    return tf.keras.Model(inputs, logits, name="mlp")
