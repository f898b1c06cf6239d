"""Activations computed anew in the backward pass, to save memory (Chen et al. 2016, arXiv:1604.06174)."""

from typing import Callable

import tensorflow as tf


def recomputed(function: Callable[..., tf.Tensor], changing: int) -> Callable[..., tf.Tensor]:
    """`function`, whose gradient keeps its arguments only and calls it again.

    Unlike `tf.recompute_grad`, no variables are looked for: everything comes by the arguments, which works the same in
    replicas and under a precision policy. Random numbers come by their seeds, so that both calls use the same.

    Args:
      function: of tensors to one tensor, a function of its arguments alone.
      changing: how many of the first arguments are not weights.
    """

    @tf.custom_gradient
    def forward(*arguments):
        def gradient(upstream):
            after = _zero_after(upstream)
            again = [x + tf.cast(after, x.dtype) for x in arguments[:changing]] + list(arguments[changing:])
            sources = [x for x in again if x.dtype.is_floating]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                result = function(*again)
            first, *others = tape.gradient(result, sources, upstream)
            # What goes further back waits for the gradients of the weights: a compiler that put them off would keep
            # all that was computed again for them.
            waiting = first + tf.cast(tf.add_n([tf.cast(_zero_after(x), tf.float32) for x in others]), first.dtype)
            found = iter([waiting, *others])
            return [next(found) if x.dtype.is_floating else None for x in again]

        return function(*arguments), gradient

    return forward


def _zero_after(x: tf.Tensor) -> tf.Tensor:
    """0, known only once `x` is there.

    What is computed from it is no common subexpression with the forward pass, which a compiler would keep in memory.
    XLA does not heed control dependencies, and sees through a comparison of a value with itself. A sum, since a replica
    without examples has no first element.
    """
    return tf.minimum(tf.reduce_sum(tf.abs(tf.reshape(x, [-1])[:1])), 0)
