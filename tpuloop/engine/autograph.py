"""AutoGraph for what users write, and not for the loop itself, whose conversion would take seconds at every start."""

import contextlib
import functools
from typing import Any, Callable, ContextManager

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx, converter


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, in which Python's control flow over tensors works while it is traced, as inside any `tf.function`.

    Run eagerly it stays as it is, so that breakpoints in it hold.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():
            return function(*args, **kwargs)
        return tf.__internal__.autograph.tf_convert(function, _enabled(), user_requested=True)(*args, **kwargs)

    return call


def converting_for_keras() -> ContextManager[Any]:
    """Inside, Keras converts users' models, layers, losses and metrics while they are traced."""
    return contextlib.nullcontext() if tf.executing_eagerly() else _enabled()


def _enabled() -> ag_ctx.ControlStatusCtx:
    return ag_ctx.ControlStatusCtx(
        status=ag_ctx.Status.ENABLED, options=converter.ConversionOptions(recursive=True, user_requested=True)
    )
