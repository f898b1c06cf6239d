"""Which variables weight decay applies to."""

import numbers
from typing import Any

import tensorflow as tf

_UNDECAYED = ("bias", "beta", "gamma")


def is_decayed(variable: tf.Variable) -> bool:
    """Whether weight decay, and the layer-wise rates of LAMB and LARS, apply to a variable.

    Not to biases and the scales and offsets of normalisation, as in BERT's release and the MLPerf reference of LARS.
    They are known by their rank, at most 1, or their name: Keras's `MultiHeadAttention` has biases of rank 2, and a
    normalisation over several axes has such scales.
    """
    return variable.shape.rank > 1 and variable.name.split(":")[0].rpartition("/")[2] not in _UNDECAYED


def check_weight_decay(value: Any) -> float:
    """`value` as a float.

    Raises:
      ValueError: where it is no number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"weight_decay must be a number of at least 0; it is {value!r}")
    return float(value)
