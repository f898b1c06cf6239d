"""Variables of which each replica keeps one of its own, such as the moving statistics of batch normalisation."""

from typing import Iterable

import tensorflow as tf


def agree(variables: Iterable[tf.Variable]) -> None:
    """Gives every replica the mean of what the replicas hold. Cross-replica context, eager.

    A checkpoint holds that mean and no more, and an evaluation gives what it does after a restart. Moving averages
    lose nothing by it: the mean of them is the moving average of the mean.

    Args:
      variables: of which those count that are read as a mean over replicas.
    """
    for variable in variables:
        of_each = getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
        if of_each and variable.aggregation == tf.VariableAggregation.MEAN:
            variable.assign(variable.read_value())
