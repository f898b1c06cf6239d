"""The Gaussian error linear unit, exact and approximate (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""

from typing import Callable, Dict

import tensorflow as tf


def gelu(x: tf.Tensor) -> tf.Tensor:
    """x times the standard normal distribution function of x, in the type of `x`."""
    return tf.nn.gelu(x, approximate=False)


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in the type of `x`."""
    return tf.nn.gelu(x, approximate=True)


BY_NAME: Dict[str, Callable[[tf.Tensor], tf.Tensor]] = {"gelu": gelu, "gelu_tanh": gelu_tanh}
