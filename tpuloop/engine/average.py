"""Exponential moving averages of a model's weights, kept while it trains and evaluated in their place."""

import contextlib
from typing import Dict, Iterator, List, Optional, Sequence

import tensorflow as tf

from tpuloop.engine.nested import layers_within


class WeightAverages(tf.Module):
    """An average beside each weight, saved and restored like a layer's variables.

    After each step,

      average <- average + (1 - d) * (weight - average),   d = min(decay, (1 + t) / (10 + t))

    with t the steps done, that one included: the rule of `tf.train.ExponentialMovingAverage` with `num_updates`, which
    lets the averages leave the initial weights quickly.

    Every replica updates an average of its own, without communication. They are equal, since the weights are; where
    they are not, as the moving statistics of batch normalisation, their mean is the average of what the weight is read
    as.

    Args:
      weights: those to average; to be made in the strategy's scope, as is this object.
      decay: above 0 and below 1.
      known: averages that there are already, whose variables are kept for the weights that they are of.
    """

    def __init__(self, weights: Sequence[tf.Variable], *, decay: float, known: Optional["WeightAverages"] = None):
        super().__init__(name="weight_averages")
        self._decay = decay
        # Not tracked: a checkpoint finds the weights in the model.
        self._weights = self._no_dependency(list(weights))
        held = {} if known is None else dict(zip(map(id, known._weights), known.values))
        self.values: List[tf.Variable] = [
            held[id(weight)] if id(weight) in held else _average_of(weight) for weight in weights
        ]
        self._in_place = False

    def are_of(self, weights: Sequence[tf.Variable]) -> bool:
        """Whether these are the averages of `weights`, in their order."""
        return list(map(id, weights)) == list(map(id, self._weights))

    def start(self) -> None:
        """Makes every average what its weight is. Eager."""
        for weight, average in self._parts():
            average.assign(weight)

    def update(self, steps_done: tf.Tensor) -> None:
        """Takes in the weights that a step has left. Replica context.

        Args:
          steps_done: integer scalar, that step included.
        """
        # 1 - d, without the rounding of d.
        share = tf.maximum(1 - self._decay, 9 / (10 + tf.cast(steps_done, tf.float32)))
        for weight, average in zip(self._weights, self.values):
            average.assign_add(tf.cast(share, average.dtype) * (weight - average))

    @contextlib.contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Inside, the weights have the values of the averages, and the averages those of the weights. Eager.

        They are put back to the bit, whatever happens inside. Entered again inside, it changes nothing.
        """
        if self._in_place:
            yield
            return
        exchanged = []
        self._in_place = True
        try:
            for pair in self._parts():
                _exchange(*pair)
                exchanged.append(pair)
            yield
        finally:
            for pair in exchanged:
                _exchange(*pair)
            self._in_place = False

    def _parts(self) -> Iterator[Sequence[tf.Variable]]:
        """Each weight and its average on each replica of this host."""
        strategy = tf.distribute.get_strategy()
        for weight, average in zip(self._weights, self.values):
            yield from zip(*map(strategy.experimental_local_results, (weight, average)))


def weights_to_average(model: tf.keras.Model) -> List[tf.Variable]:
    """The floating weights of a model, moving statistics included and the state of metrics not.

    In an order that does not change where layers are frozen, so that the averages in a checkpoint stay those of their
    weights.
    """
    layers = layers_within(model)
    metrics = [layer for layer in model._flatten_layers() if isinstance(layer, tf.keras.metrics.Metric)]
    left_out = {id(variable) for metric in metrics for variable in metric.variables}
    found: Dict[int, tf.Variable] = {}
    for layer in layers:
        if not isinstance(layer, tf.keras.metrics.Metric):
            found.update((id(weight), weight) for weight in (*layer._trainable_weights, *layer._non_trainable_weights))
    found.update((id(weight), weight) for weight in model.weights)
    return [weight for number, weight in found.items() if weight.dtype.is_floating and number not in left_out]


def _average_of(weight: tf.Variable) -> tf.Variable:
    each_its_own = weight.synchronization == tf.VariableSynchronization.ON_READ
    return tf.Variable(
        weight.read_value(),
        trainable=False,
        name=f"average/{weight.name.split(':')[0]}",
        dtype=weight.dtype,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=weight.aggregation if each_its_own else tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _exchange(weight: tf.Variable, average: tf.Variable) -> None:
    value = tf.identity(weight)
    weight.assign(average)
    average.assign(value)
