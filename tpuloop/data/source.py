"""What the loop asks of data whose stream can be entered anywhere."""

import abc
from typing import Any, Optional

import tensorflow as tf


class Source(abc.ABC):
    """Examples in an order that is a function of (seed, epoch), readable from any position.

    The position of a run is `step x batch size` and needs no saving. Batches are GLOBAL: all replicas of all hosts
    together take one.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Examples in one epoch."""

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The structure of one example: nested `tf.TensorSpec`s without a batch dimension."""

    @abc.abstractmethod
    def batches(self, *, batch_size: int, seed: int, position: int = 0) -> tf.data.Dataset:
        """The endless stream of full batches from example `position` of the run on.

        Every epoch holds every example once. Batches run across the edge of an epoch, so that all have one static
        shape and `position` is exact.
        """

    @abc.abstractmethod
    def one_pass(self, *, batch_size: int) -> tf.data.Dataset:
        """All examples once, in their stored order; the last batch may be short."""

    def steps_per_epoch(self, batch_size: int) -> int:
        """Batches that hold one epoch, the last perhaps running into the next epoch; Keras counts the same."""
        return -(-self.size // batch_size)


def as_source(data: Any) -> Optional[Source]:
    """`data` as a source: a Source itself, or arrays (NumPy or tensors, nested); None for anything else."""
    from tpuloop.data.arrays import ArraySource, is_arrays

    if isinstance(data, Source):
        return data
    return ArraySource(data) if is_arrays(data) else None
