"""Which variables weight decay applies to."""

import numbers
from typing import Any

import tensorflow as tf


def is_decayed(variable: tf.Variable) -> bool:
    """Whether weight decay, and the layer-wise rates of LAMB and LARS, apply to a variable: if its rank is above 1.

    Biases and the scales and offsets of normalisation (gamma, beta) are vectors; kernels and embeddings are not. These
    are the ones that BERT's release and the MLPerf reference of LARS leave out by name, and a rank needs no names.
    """
    return variable.shape.rank > 1


def check_weight_decay(value: Any) -> float:
    """`value` as a float.

    Raises:
      ValueError: where it is no number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"weight_decay must be a number of at least 0; it is {value!r}")
    return float(value)
