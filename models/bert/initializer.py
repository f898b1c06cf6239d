"""How all matrices of a BERT start."""

import tensorflow as tf


def initializer() -> tf.keras.initializers.Initializer:
    """A normal distribution of standard deviation 0.02, cut off at two of them, as in the original release."""
    return tf.keras.initializers.TruncatedNormal(stddev=0.02)
