"""Variables of the loop itself, which live on the host."""

from typing import Any, Optional

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable


def host_variable(value: Any, *, name: str, dtype: Optional[tf.DType] = None) -> tf.Variable:
    """A variable in the host's memory, also where it is made inside a strategy's scope.

    `tf.Variable` would be one for each replica there, which costs time at every update in a compiled loop, and which
    another thread cannot set while a call runs.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        return ResourceVariable(value, trainable=False, name=name, dtype=dtype)
