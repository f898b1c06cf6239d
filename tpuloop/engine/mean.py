"""A value whose mean over the *global* batch is meant."""

from typing import Any, Dict, Optional, Tuple, Union

import tensorflow as tf

from tpuloop.errors import UsageError


class Mean:
    """Weighted values; their mean is taken over every replica's elements at once.

    The mean of a step is `sum(weights * values) / sum(weights)`, both sums over all replicas. A replica with a short,
    padded or empty batch therefore pulls the mean by what it holds and no more, which a mean of per-replica means
    does not.

    Args:
      values: any shape; the first dimension is the replica's batch. A scalar counts as one element per replica.
      weights: broadcast over the trailing dimensions of `values`, or None where every element counts 1.
        Elements of weight 0 do not count in the mean, not even where their value is NaN. Their gradient is 0 on its
        way into what computed them; where that has an infinite slope, as `tf.math.log` at 0, it makes 0 * inf = NaN
        of it, in the gradient of every variable behind. Only who computes the values can prevent that, with a
        harmless argument: `tf.math.log(tf.where(weights > 0, x, 1.0))`, and not a `tf.where` after the logarithm.
    """

    def __init__(self, values: tf.Tensor, weights: Optional[tf.Tensor] = None):
        values = tf.convert_to_tensor(values)
        # bfloat16 holds 8 bits: 1000 ones add up to 256. Sums are never made in less than float32.
        self.values = values if values.dtype == tf.float64 else tf.cast(values, tf.float32)
        self.weights = None
        if weights is not None:
            self.weights = _spread(tf.cast(weights, self.values.dtype), self.values)

    def masked(self, mask: tf.Tensor) -> "Mean":
        """The same values with the batch's rows weighted by `mask` (shape [batch]); 0 leaves a padded row out.

        Raises:
          ValueError: for a scalar, whose rows can no longer be told apart.
        """
        if self.values.shape.rank == 0:
            raise UsageError(
                "a scalar cannot be averaged exactly over a padded batch: "
                "return one value per example, Mean(values) with values of shape [batch, ...]"
            )
        mask = _spread(tf.cast(mask, self.values.dtype), self.values)
        return Mean(self.values, mask if self.weights is None else self.weights * mask)

    def plus(self, scalar: tf.Tensor) -> "Mean":
        """The same mean, `scalar` higher: how a regulariser joins a loss and counts once at any replica count."""
        return Mean(self.values + tf.cast(scalar, self.values.dtype), self.weights)

    def weighted_values(self) -> tf.Tensor:
        """Each value times its weight; 0 where the weight is 0, whatever the value."""
        return self.values if self.weights is None else tf.math.multiply_no_nan(self.values, self.weights)

    def sums(self) -> Tuple[tf.Tensor, tf.Tensor]:
        """This replica's `(sum of weights * values, sum of weights)`, two scalars."""
        if self.weights is None:
            return tf.reduce_sum(self.values), self.element_count()
        return tf.reduce_sum(self.weighted_values()), tf.reduce_sum(self.weights)

    def element_count(self) -> tf.Tensor:
        """How many elements this replica holds, whatever their weight; a constant where the shape is static."""
        return tf.cast(tf.size(self.values), self.values.dtype)

    def static_weight(self) -> Optional[int]:
        """The sum of weights where it is known before the step runs, and so the same on every replica."""
        return self.values.shape.num_elements() if self.weights is None else None


class SumOfMeans:
    """A loss that is the sum of several means, each over elements of its own, such as masked tokens and sentence pairs.

    Every part is averaged over the elements of all replicas that it has, and reported under its name beside the sum.

    Args:
      parts: by name. A batch in which a part has no elements that count gets no gradient from it.
    """

    def __init__(self, **parts: Mean):
        if not parts:
            raise UsageError("SumOfMeans needs at least one part: SumOfMeans(name=Mean(...))")
        self.parts: Dict[str, Mean] = {name: as_loss(part) for name, part in parts.items()}
        for name, part in parts.items():
            if isinstance(part, SumOfMeans):
                raise TypeError(f"the part {name!r} is a sum of means itself: give its parts")

    def masked(self, mask: tf.Tensor) -> "SumOfMeans":
        """As `Mean.masked`, for every part."""
        return SumOfMeans(**{name: part.masked(mask) for name, part in self.parts.items()})

    def plus(self, scalar: tf.Tensor) -> "SumOfMeans":
        """The same sum, `scalar` higher, as a part of its own: "regularization_loss"."""
        name = "regularization_loss"
        if name in self.parts:
            raise UsageError(f"the loss has a part called {name!r}, which is that of the model's own losses: rename it")
        first = next(iter(self.parts.values())).values
        # A value per example, so that an evaluation can leave the padded ones out.
        constant = tf.fill(tf.shape(first)[:1], tf.cast(scalar, first.dtype))
        return SumOfMeans(**self.parts, **{name: Mean(constant)})


Loss = Union[Mean, SumOfMeans]


def as_loss(value: Any) -> Any:
    """A `Mean` or a `SumOfMeans` as it is; a tensor as the Mean of its elements."""
    return value if isinstance(value, (Mean, SumOfMeans)) else Mean(value)


def parts_of(loss: Loss) -> Tuple[Mean, ...]:
    """The means whose sum the loss is."""
    return tuple(loss.parts.values()) if isinstance(loss, SumOfMeans) else (loss,)


def _spread(weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Repeats `weights` over the trailing dimensions that only `values` has."""
    missing = values.shape.rank - weights.shape.rank
    if missing < 0:
        raise ValueError(
            f"weights of shape {weights.shape} do not fit values of shape {values.shape}: "
            "they may have the values' leading dimensions only"
        )
    weights = tf.reshape(weights, tf.concat([tf.shape(weights), tf.ones([missing], tf.int32)], axis=0))
    return tf.broadcast_to(weights, tf.shape(values))
