"""The Gaussian error linear unit, exact and approximate (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""

import math
from typing import Callable, Dict

import tensorflow as tf


def gelu(x: tf.Tensor) -> tf.Tensor:
    """x times the standard normal distribution function of x, in the type of `x`."""
    return tf.nn.gelu(x, approximate=False)


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in the type of `x`."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + tf.tanh(inner))


BY_NAME: Dict[str, Callable[[tf.Tensor], tf.Tensor]] = {"gelu": gelu, "gelu_tanh": gelu_tanh}
